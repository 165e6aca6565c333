'use strict';
// Interrupts cells, even one that never returns to the event loop.
//
// The synchronous part of a cell runs in a `vm.Script` with `breakOnSigint`: a thread of Node's own catches the signal
// and ends the script.  Later code (after an `await`, in timers) is not in that script.  For it, a worker thread waits
// for the signal, tells the main thread, and if that is too busy to answer, terminates what it executes.

// Saved now, because a cell may declare these names, too.
const { Atomics, Int32Array, Object, SharedArrayBuffer, process, setImmediate } = globalThis;

const inspector = require('inspector');
const path = require('path');
const vm = require('vm');

const IDLE = 0;
const ARMED = 1;

const RUN = '__run__';

/** The file that the kernel's own frames below a cell's frames belong to: errors.js cuts there. */
const FRAME = 'cloche:run';

const script = new vm.Script(`${RUN}()`, { filename: FRAME });
const state = new Int32Array(new SharedArrayBuffer(8)); // IDLE or ARMED; number of the main thread's answers

let todo = null;
let binding = null;
let worker = null;
let onInterrupt = () => {};
let session = null;

/** @param {inspector.Session} inspectorSession @param {() => void} interrupted called from the event loop */
function install(inspectorSession, interrupted) {
  session = inspectorSession;
  onInterrupt = interrupted;
  Object.defineProperty(globalThis, RUN, { value: () => todo() });
  const { noDeprecation } = process;
  process.noDeprecation = true; // about process.binding
  try {
    binding = process.binding('contextify');
    // From here on the signal never kills, and is noted if nobody waits for it.
    binding.startSigintWatchdog();
    keepSignalToOurselves();
    allowUnwinding(process.binding('async_wrap'));
  } catch {
    binding = null; // a Node that hides them: the event loop handles a signal between two cells
    process.on('SIGINT', () => onInterrupt());
  }
  process.noDeprecation = noDeprecation;
}

/** Ignores a cell's own `process.on('SIGINT')`, which would replace the handler that interrupts depend on. */
function keepSignalToOurselves() {
  for (const [event, name] of [
    ['newListener', 'startListeningIfSignal'],
    ['removeListener', 'stopListeningIfSignal'],
  ]) {
    const original = process.listeners(event).find((listener) => listener.name === name);
    if (!original) continue;
    process.removeListener(event, original);
    process.on(event, (signal) => signal === 'SIGINT' || original(signal));
  }
}

/** Terminating the event loop's code leaves entries on the stack of asynchronous contexts, and Node would abort. */
function allowUnwinding(wrap) {
  wrap.async_hook_fields[wrap.constants.kCheck] = 0;
  clearStack = () => wrap.clearAsyncIdStack();
}

let clearStack = () => {};

/**
 * Calls `work` so that an interrupt ends it, wherever it is.
 * @returns {boolean} whether it came to its end
 */
function run(work) {
  todo = work;
  try {
    script.runInThisContext({ breakOnSigint: true, displayErrors: false });
    return true;
  } catch (problem) {
    if (problem && problem.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED') return false;
    throw problem;
  } finally {
    todo = null;
  }
}

/** Lets interrupts reach the code that the event loop runs, from now on. */
function arm() {
  if (binding === null) return;
  Atomics.store(state, 0, ARMED);
  Atomics.notify(state, 0);
  if (worker !== null) return;
  const { Worker } = require('worker_threads');
  worker = new Worker(path.join(__dirname, 'watcher.js'), {
    workerData: state,
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 },
  });
  worker.unref();
  worker.on('error', () => {
    worker = null;
  });
  worker.on('message', (message) => {
    // "armed": a signal that came before the worker waited for it was only noted.
    if (message === 'armed' && !binding.watchdogHasPendingSigint()) return;
    if (Atomics.load(state, 0) !== ARMED) return;
    Atomics.add(state, 1, 1);
    Atomics.notify(state, 1);
    clearStack();
    onInterrupt();
  });
}

function disarm() {
  Atomics.store(state, 0, IDLE);
  Atomics.notify(state, 0);
}

/** Terminates the running code, down to the event loop, then calls `after`.  No `catch` or `finally` runs. */
function unwind(after) {
  setImmediate(() => {
    clearStack();
    after();
  });
  session.post('Runtime.terminateExecution');
  for (;;);
}

module.exports = { FRAME, install, run, arm, disarm, unwind };
