'use strict';
// The JavaScript kernel: a Node whose cells share one scope, by V8's REPL mode.  `cloche.kernels` has the protocol.
//
//   control.js     frames in and out              errors.js      errors for a cell's author
//   streams.js     stdout, stderr, stdin          interrupts.js  how a cell is stopped
//   modules.js     import and export              typescript.js  TypeScript cells
//   display.js     the forms of a value           tokens.js      finds the code in a text
//   declarations.js  names that are declared again   variables.js    a list of the variables

// Saved now, because a cell may declare these names, too.
const { BigInt, Error, JSON, Map, Number, Object, Promise, Set, String, Symbol, process, setImmediate } = globalThis;

const inspector = require('inspector');
const v8 = require('v8');
const vm = require('vm');
const control = require('./javascript/control.js');
const declarations = require('./javascript/declarations.js');
const display = require('./javascript/display.js');
const errors = require('./javascript/errors.js');
const interrupts = require('./javascript/interrupts.js');
const modules = require('./javascript/modules.js');
const streams = require('./javascript/streams.js');
const typescript = require('./javascript/typescript.js');
const variables = require('./javascript/variables.js');

const { kinds } = control;
const { parse } = JSON;
const MAX_DISPLAYS = 500; // per cell
const NOT_IMPLEMENTED = 38; // ENOSYS

const session = new inspector.Session();
const tick = process._tickCallback; // runs what `await` and `nextTick` have queued

/** @type {Cell | null} the running cell */
let current = null;
let receive = null; // receives the value that V8 hands over
let receiver = ''; // V8's name for the function that calls it
const calls = new Map(); // pending tool calls: number -> {resolve, reject}
let lastCall = 0;
let count = 0; // number of cells so far

class Cell {
  // Declared, so that a setter of this name on Object.prototype does not swallow the value.
  operation; number; code; typed; name; input; environment; replaced; script; converted; displays;
  failed; settled; leaving; ended; cpu;

  constructor(operation, order) {
    this.operation = operation;
    this.number = ++count;
    this.code = order.code;
    this.typed = order.language === 'typescript';
    this.name = `cell-${this.number}.${this.typed ? 'ts' : 'js'}`;
    this.input = order.stdin;
    this.environment = order.env || {};
    this.replaced = new Map(); // environment variables to restore
    this.script = ''; // the script that is run for the code
    this.converted = new Set(); // names whose declarations were changed
    this.displays = 0;
    this.failed = false;
    this.settled = false; // its value or error has been sent
    this.leaving = false; // it has called process.exit
    this.ended = false;
    this.cpu = process.cpuUsage();
  }
}

function start() {
  session.connect();
  connectReceiver();
  errors.install();
  interrupts.install(session, () => current && interrupted(current));
  modules.install();
  streams.installOutput();
  streams.installInput();
  installGlobals();
  variables.install();
  process.setUncaughtExceptionCaptureCallback(uncaught);
  process.exit = process.reallyExit = exit;
  listen();
  control.sendJson(kinds.STARTED, { pid: process.pid }, 0);
}

function listen() {
  // The kernel uses one thread of the pool; programs expect four.  The pool reads this variable once, now.
  const size = process.env.UV_THREADPOOL_SIZE;
  process.env.UV_THREADPOOL_SIZE = String(Number(size || 4) + 1);
  const queue = [];
  const drain = () => {
    while (queue.length) {
      const frame = queue.shift();
      if (queue.length) setImmediate(drain); // a cell may end this loop
      handle(frame);
    }
  };
  control.listen((frames) => {
    queue.push(...frames);
    drain();
  });
  if (size === undefined) delete process.env.UV_THREADPOOL_SIZE;
  else process.env.UV_THREADPOOL_SIZE = size;
}

function handle({ operation, kind, payload }) {
  if (kind === kinds.CELL) run(new Cell(operation, parse(payload)));
  else if (kind === kinds.ANSWER) answer(parse(payload));
  else if (kind === kinds.ASK && parse(payload).what === 'list') {
    control.sendJson(kinds.REPLY, variables.list(session, parse(payload)), operation);
  } else if (kind === kinds.FORK || kind === kinds.ASK) {
    const message = 'JavaScript kernels cannot be forked';
    control.sendJson(kinds.FAIL, { errno: NOT_IMPLEMENTED, message }, operation);
  }
}

/** @param {Cell} cell */
function run(cell) {
  current = cell;
  control.setOperation(cell.operation);
  setEnvironment(cell);
  if (cell.input) streams.openInput(cell.input);
  let ran = false;
  try {
    ran = interrupts.run(() => {
      const code = scriptOf(cell);
      if (code === null) return;
      evaluate(cell, code);
      tick();
    });
  } catch (problem) {
    fail(cell, errors.describe(problem)); // V8 itself gave up, for example because the stack overflowed
    return;
  }
  if (!ran) interrupted(cell);
  else if (!cell.ended && !cell.settled) interrupts.arm();
}

/** Returns the script to run for the cell; null if it could not be parsed, which has been reported. */
function scriptOf(cell) {
  let { code } = cell;
  let map = null;
  errors.remember(cell.name, code);
  if (cell.typed) {
    try {
      ({ code, map } = typescript.strip(code, cell.name));
    } catch (problem) {
      settleWithError(cell, problem, problem.place);
      return null;
    }
    errors.remember(cell.name, cell.code, map);
  }
  cell.script = modules.rewrite(declarations.relax(asExpression(code)), cell.typed);
  return cell.script;
}

/** Reads text that starts with a brace as an object if possible, as Node's own REPL does. */
function asExpression(code) {
  if (!/^\s*\{[^]*\}\s*$/.test(code)) return code;
  try {
    new vm.Script(`(${code})`);
    return `(${code})`;
  } catch {
    return code;
  }
}

function evaluate(cell, script) {
  const expression = `${script}\n//# sourceURL=${cell.name}`;
  const options = { expression, replMode: true, awaitPromise: true, objectGroup: 'cell' };
  const release = keepPromise();
  session.post('Runtime.evaluate', options, (refused, reply) => {
    release();
    if (cell.ended || cell.settled || cell.leaving) return; // ended by an interrupt or an error
    if (refused) return void settleWithError(cell, new Error(refused.message));
    const { result, exceptionDetails: details } = reply;
    if (details && details.scriptId && declareAgain(cell, script, details.exception)) return;
    if (details) settleWithError(cell, take(details.exception || result), placeOf(cell, details));
    else settle(cell, take(result));
  });
}

/**
 * Keeps the promise of the next evaluated script until it is called.  V8 answers when a promise that never settles is
 * garbage-collected, in the middle of the collection, and Node crashes on that.
 */
function keepPromise() {
  let promise;
  let stop = v8.promiseHooks.onInit((first) => {
    promise = first; // the script's own promise comes before all that it creates
    kept.add(promise);
    stop();
    stop = null;
  });
  return () => {
    if (stop) stop();
    kept.delete(promise);
  };
}

const kept = new Set();

/** Returns where V8 stopped parsing a cell; null for errors of a cell that ran. */
function placeOf(cell, details) {
  const { className, description = '' } = details.exception || {};
  if (className !== 'SyntaxError' || !details.scriptId || /\n {4}at /.test(description)) return null;
  const [written, ran] = [cell.code, cell.script].map((text) => text.split('\n')[details.lineNumber]);
  // In a rewritten line, the columns are not the author's.
  const isMoved = written !== undefined && ran !== undefined && written.length !== ran.length;
  return { name: cell.name, line: details.lineNumber + 1, column: isMoved ? 0 : details.columnNumber + 1 };
}

/** Nothing of the cell has run if it declares a name differently than an earlier cell: change its declaration, once. */
function declareAgain(cell, script, { description = '' } = {}) {
  const [, name, frames] = /^SyntaxError: Identifier '(.+)' has already been declared([^]*)/.exec(description) || [];
  if (frames && frames !== `\n    at ${cell.name}:1:1`) return false; // it comes from code that has already started
  if (name === undefined || cell.converted.has(name)) return false;
  cell.converted.add(name);
  const converted = declarations.convert(script, name);
  if (converted !== null) evaluate(cell, converted);
  return converted !== null;
}

/** Makes V8 hand over real values; it only names them. */
function connectReceiver() {
  const name = Symbol.for('cloche.receiver');
  globalThis[name] = (value) => receive(value);
  session.post('Runtime.evaluate', { expression: `globalThis[Symbol.for('cloche.receiver')]` }, (_, { result }) => {
    receiver = result.objectId;
  });
  delete globalThis[name];
}

function take({ type, value, unserializableValue, objectId }) {
  if (objectId === undefined) {
    if (unserializableValue === undefined) return value;
    return type === 'bigint' ? BigInt(unserializableValue.slice(0, -1)) : Number(unserializableValue);
  }
  let taken;
  receive = (given) => {
    taken = given;
  };
  const functionDeclaration = 'function (value) { this(value); }';
  session.post('Runtime.callFunctionOn', { objectId: receiver, functionDeclaration, arguments: [{ objectId }] });
  receive = null;
  return taken;
}

/** @param {Cell} cell */
function settle(cell, value) {
  const finish = (data) => {
    if (cell.ended) return;
    if (data) control.sendMessage({ type: 'result', data, metadata: {}, count: cell.number });
    settled(cell);
  };
  const data = value === undefined ? null : display.bundleOf(value);
  if (data !== null && typeof data.then === 'function') data.then(finish);
  else finish(data);
}

function settleWithError(cell, problem, place = null) {
  if (cell.ended) return;
  cell.failed = true;
  control.sendMessage(errors.describe(problem, place));
  settled(cell);
}

function settled(cell) {
  cell.settled = true;
  setImmediate(end, cell); // later: unhandled rejections are known at the end of this turn
}

/** Ends the cell with an error, whatever it still waits for. */
function fail(cell, message, code = 1) {
  if (cell.ended || cell.leaving) return;
  cell.failed = true;
  control.sendMessage(message);
  end(cell, 'error', code);
}

function interrupted(cell) {
  fail(cell, errors.plain('KeyboardInterrupt', 'the cell was interrupted'), 130);
}

/** @param {Cell} cell */
function end(cell, status, code) {
  if (cell.ended) return;
  cell.ended = true;
  current = null;
  interrupts.disarm();
  if (cell.input) streams.closeInput();
  restoreEnvironment(cell);
  const exitCode = Number(process.exitCode) || 0;
  process.exitCode = undefined;
  if (status === undefined) {
    status = cell.failed ? 'error' : exitCode ? 'exit' : 'ok';
    code = cell.failed ? 1 : exitCode & 0xff;
  }
  session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
  const { user, system } = process.cpuUsage(cell.cpu);
  const peak = process.resourceUsage().maxRSS * 1024;
  control.sendJson(kinds.EXIT, { status, code, count: cell.number, cpu: (user + system) / 1e6, peak }, cell.operation);
}

function uncaught(problem) {
  if (process.listenerCount('uncaughtException') > 0) {
    process.emit('uncaughtException', problem, 'uncaughtException'); // the cell's author handles it
    return;
  }
  const message = errors.describe(problem);
  if (current) fail(current, message);
  else control.write(kinds.STDERR, `${message.traceback}\n`);
}

/** `process.exit`: ends the cell, not the kernel. */
function exit(code = process.exitCode) {
  const cell = current;
  const number = Number(code) & 0xff;
  process.exitCode = undefined;
  if (cell) cell.leaving = true; // V8's error about it is not reported
  interrupts.unwind(() => {
    if (cell) end(cell, number ? 'exit' : 'ok', number);
  });
}

function setEnvironment(cell) {
  for (const [name, value] of Object.entries(cell.environment)) {
    cell.replaced.set(name, process.env[name]);
    process.env[name] = value;
  }
}

function restoreEnvironment(cell) {
  for (const [name, value] of cell.replaced) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
}

function installGlobals() {
  const tools = { __proto__: null };
  for (const name of parse(process.env.CLOCHE_TOOLS || '[]')) tools[name] = (...args) => callTool(name, args);
  delete process.env.CLOCHE_TOOLS;
  const globals = { display: show, cloche: { tools: Object.freeze(tools) } };
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
}

/** The global `display`: shows a value now; with `raw`, the value is a MIME bundle. */
function show(value, { raw = false, metadata = {} } = {}) {
  const cell = current;
  if (cell && ++cell.displays > MAX_DISPLAYS) {
    if (cell.displays === MAX_DISPLAYS + 1) control.write(kinds.STDERR, `[more than ${MAX_DISPLAYS} displays: the rest is left out]\n`);
    return undefined;
  }
  const send = (data) => control.sendMessage({ type: 'display', data, metadata, display_id: null, update: false });
  const data = raw ? display.checked(value) : display.bundleOf(value);
  return typeof data.then === 'function' ? data.then(send) : send(data);
}

class ToolError extends Error {}
ToolError.prototype.name = 'ToolError';

function callTool(tool, args) {
  const problem = new ToolError(); // created now, so that its stack is the caller's
  return new Promise((resolve, reject) => {
    const call = ++lastCall;
    control.sendJson(kinds.EVENT, { call, tool, args, kwargs: {} });
    calls.set(call, { resolve, reject, problem });
  });
}

function answer({ call, value, error }) {
  const waiting = calls.get(call);
  if (!waiting) return;
  calls.delete(call);
  if (error === undefined || error === null) return void waiting.resolve(value);
  const { problem } = waiting;
  const { stack } = problem;
  problem.message = typeof error === 'string' ? error : String(error.message);
  problem.stack = `${problem}${stack.slice('ToolError'.length)}`;
  waiting.reject(problem);
}

start();
