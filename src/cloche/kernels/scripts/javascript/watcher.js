'use strict';
// The worker thread of interrupts.js: waits for SIGINT while the main thread may be busy.

const inspector = require('inspector');
const vm = require('vm');
const { parentPort, workerData } = require('worker_threads');

const IDLE = 0;
const ARMED = 1;
const PATIENCE_MS = 50; // an idle event loop answers far sooner

const session = new inspector.Session();
session.connectToMainThread();
globalThis.state = workerData;
const wait = new vm.Script(`Atomics.wait(state, 0, ${ARMED})`);

for (;;) {
  Atomics.wait(workerData, 0, IDLE);
  parentPort.postMessage('armed');
  const answered = Atomics.load(workerData, 1);
  try {
    wait.runInThisContext({ breakOnSigint: true, displayErrors: false });
  } catch {
    parentPort.postMessage('interrupt');
    if (Atomics.wait(workerData, 1, answered, PATIENCE_MS) === 'timed-out') {
      session.post('Runtime.terminateExecution');
    }
    Atomics.wait(workerData, 0, ARMED); // until the cell has ended
  }
}
