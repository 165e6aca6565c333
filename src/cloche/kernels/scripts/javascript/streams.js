'use strict';
// `process.stdout`, `process.stderr` and `process.stdin` of a cell.

// Saved now, because a cell may declare these names, too.
const { Buffer, Object, TypeError, console, process } = globalThis;

const { Console } = require('console');
const fs = require('fs');
const { Writable } = require('stream');
const control = require('./control.js');

const { openSync, closeSync } = fs;

/** Sends standard output and errors to the control immediately; `console` writes to these streams. */
function installOutput() {
  define('stdout', outputStream(control.kinds.STDOUT, 1));
  define('stderr', outputStream(control.kinds.STDERR, 2));
  // Node's own methods report every call to the inspector, which keeps the arguments and costs more than the output.
  // If errors were ignored, these methods would add a listener at every call.
  const plain = new Console({ stdout: process.stdout, stderr: process.stderr, ignoreErrors: false });
  for (const [name, value] of Object.entries(plain)) {
    if (typeof value === 'function' && name in console) console[name] = value;
  }
}

function outputStream(kind, fd) {
  const send = (chunk, encoding) => {
    if (typeof chunk === 'string') {
      const isText = !encoding || encoding === 'utf8' || encoding === 'utf-8' || !Buffer.isEncoding(encoding);
      control.write(kind, isText ? chunk : Buffer.from(chunk, encoding));
    } else control.write(kind, chunk);
  };
  const stream = new Writable({
    decodeStrings: false,
    write(chunk, encoding, done) {
      send(chunk, encoding);
      done();
    },
    destroy(problem, done) {
      done(problem);
    },
  });
  stream.fd = fd;
  stream._type = 'pipe';
  stream._isStdio = true;
  stream.destroySoon = stream.destroy = () => stream; // like Node's own, they cannot be closed
  stream.end = (chunk, encoding, done) => {
    if (typeof chunk !== 'function' && chunk !== undefined && chunk !== null) send(chunk, encoding);
    const callback = [chunk, encoding, done].find((value) => typeof value === 'function');
    if (callback) process.nextTick(callback);
    return stream;
  };
  // Without the queue of a Writable: a write is complete when it returns.
  stream.write = (chunk, encoding, done) => {
    if (typeof encoding === 'function') [done, encoding] = [encoding, undefined];
    if (typeof chunk !== 'string' && !(chunk instanceof Uint8Array)) {
      const problem = new TypeError('The "chunk" argument must be of type string or an instance of Buffer or Uint8Array');
      problem.code = 'ERR_INVALID_ARG_TYPE';
      throw problem;
    }
    send(chunk, encoding);
    if (typeof done === 'function') process.nextTick(done);
    return true;
  };
  return stream;
}

let stdin = null; // created when it is first used

/** Makes the cell's input descriptor 0 itself, so that `fs.readFileSync(0)` and child processes find it, too. */
function openInput(path) {
  replaceDescriptor(path || '/dev/null');
  dropStream();
}

function closeInput() {
  replaceDescriptor('/dev/null');
  dropStream();
}

function replaceDescriptor(path) {
  try {
    closeSync(0);
  } catch {
    // a cell has closed it
  }
  // The lowest free descriptor is the one just closed.
  const fd = openSync(path, 'r');
  if (fd !== 0) closeSync(fd);
}

function dropStream() {
  if (stdin !== null) stdin.destroy();
  stdin = null;
}

function installInput() {
  Object.defineProperty(process, 'stdin', {
    configurable: true,
    enumerable: true,
    get() {
      if (stdin === null) {
        stdin = new fs.ReadStream(null, { fd: 0, autoClose: false });
        stdin.fd = 0;
      }
      return stdin;
    },
  });
  // If it were opened by that name, a pipe whose writer is done would wait for another writer.
  const { readFileSync } = fs;
  fs.readFileSync = function (file, ...rest) {
    return readFileSync.call(this, file === '/dev/stdin' ? 0 : file, ...rest);
  };
  Object.defineProperty(globalThis, 'prompt', { value: prompt, writable: true, configurable: true, enumerable: false });
}

/** Asks on standard output, and reads a line of the cell's input; null at its end. */
function prompt(message = '', fallback = null) {
  control.write(control.kinds.STDOUT, message === '' ? '' : `${message} `);
  const line = [];
  const byte = Buffer.alloc(1);
  while (control.readSync(0, byte, 0, 1, null) === 1) {
    if (byte[0] === 10) return text(line);
    line.push(byte[0]);
  }
  return line.length ? text(line) : fallback;
}

function text(bytes) {
  return Buffer.from(bytes).toString().replace(/\r$/, '');
}

function define(name, value) {
  Object.defineProperty(process, name, { value, configurable: true, enumerable: true, writable: true });
}

module.exports = { installOutput, installInput, openInput, closeInput };
