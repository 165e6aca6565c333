'use strict';
// The kernel's end of its control, on descriptor 3; `cloche.wire.frames` describes the frames.
//
// Everything is written immediately and completely: output and displays keep their order, and nothing is lost if the
// process ends the next moment.

// Saved now, because a cell may declare these names, too.
const { Atomics, Buffer, Int32Array, JSON, RangeError, SharedArrayBuffer, process, setTimeout } = globalThis;

const fs = require('fs');

const { writeSync, readSync, read } = fs; // saved now: a cell may replace them, and those below
const { stringify } = JSON;
const { pid } = process;
const kill = process.kill.bind(process);
const { alloc, allocUnsafeSlow, concat, from } = Buffer;

const FD = 3;
const HEADER = 9;
const CHUNK = 128 << 10; // bytes of output in one frame
const PIECE = 64 << 10; // bytes of a message in one frame
const MAX_PAYLOAD = 1 << 20;

const kinds = {
  CELL: 9, ANSWER: 10, FORK: 11, ASK: 12,
  STARTED: 16, STDOUT: 17, STDERR: 18, EXIT: 19, REPLY: 20, FAIL: 21, DATA: 22, EVENT: 23,
};

const scratch = allocUnsafeSlow(HEADER + CHUNK);
const nap = new Int32Array(new SharedArrayBuffer(4));

// The frame that is being written.  An interrupt may end the writing code at any call; the rest of the frame then goes
// out before the next one, so that the stream stays intact.
let waiting = scratch;
let sent = 0;
let end = 0;

/** The operation of the current or the last cell: later output of its timers belongs to it, too. */
let operation = 0;

function setOperation(number) {
  operation = number;
}

/** The agent is gone, or a cell has closed the descriptor.  A normal exit would wait for threads in a read. */
function leave() {
  kill(pid, 'SIGKILL');
}

function flush() {
  while (sent < end) {
    try {
      sent += writeSync(FD, waiting, sent, end - sent);
    } catch (problem) {
      if (problem.code !== 'EAGAIN') leave();
      Atomics.wait(nap, 0, 0, 1); // a cell has made the descriptor non-blocking
    }
  }
}

function put(buffer, length) {
  waiting = buffer;
  sent = 0;
  end = length;
  flush();
}

function writeHeader(buffer, at, length, kind, number) {
  buffer.writeUInt32BE(length, at);
  buffer.writeUInt32BE(number, at + 4);
  buffer[at + 8] = kind;
}

/** Sends output: a string or bytes. */
function write(kind, data) {
  flush();
  if (typeof data === 'string') {
    if (data.length * 3 <= CHUNK) {
      const length = scratch.write(data, HEADER);
      if (length === 0) return;
      writeHeader(scratch, 0, length, kind, operation);
      put(scratch, HEADER + length);
      return;
    }
    data = from(data);
  }
  for (let start = 0; start < data.length; start += CHUNK) {
    const part = data.subarray(start, start + CHUNK);
    flush();
    scratch.set(part, HEADER);
    writeHeader(scratch, 0, part.length, kind, operation);
    put(scratch, HEADER + part.length);
  }
}

/** Sends a frame whose payload is JSON; without a prototype, on which a cell could define `toJSON`. */
function sendJson(kind, value, number = operation) {
  const payload = from(stringify({ __proto__: null, ...value }));
  if (payload.length > MAX_PAYLOAD) throw new RangeError(`more than ${MAX_PAYLOAD} bytes cannot be sent`);
  const frame = allocUnsafeSlow(HEADER + payload.length);
  writeHeader(frame, 0, payload.length, kind, number);
  payload.copy(frame, HEADER);
  flush();
  put(frame, frame.length);
}

/** Sends a message of any length, in consecutive frames. */
function sendMessage(message) {
  const data = from(stringify({ __proto__: null, ...message }));
  const pieces = Math.max(1, Math.ceil(data.length / PIECE));
  const frames = allocUnsafeSlow(data.length + pieces * (HEADER + 1));
  let at = 0;
  for (let start = 0; start < data.length; start += PIECE) {
    const length = Math.min(PIECE, data.length - start);
    writeHeader(frames, at, length + 1, kinds.DATA, operation);
    frames[at + HEADER] = start + PIECE >= data.length ? 1 : 0;
    data.copy(frames, at + HEADER + 1, start, start + length);
    at += HEADER + 1 + length;
  }
  flush();
  put(frames, at);
}

/**
 * Calls back with each batch of frames that arrives: `{operation, kind, payload}`.
 *
 * Uses a blocking read in a thread of the pool, not a socket of the event loop, which would make the descriptor
 * non-blocking for the writes, too.
 */
function listen(receive) {
  const inbox = allocUnsafeSlow(256 << 10);
  let rest = alloc(0);
  const next = () => {
    read(FD, inbox, 0, inbox.length, null, (problem, count) => {
      if (problem && problem.code === 'EAGAIN') return void setTimeout(next, 1);
      if (problem || count === 0) leave();
      const data = concat([rest, inbox.subarray(0, count)]); // copied, because the next read starts at once
      next();
      const frames = [];
      let at = 0;
      while (data.length - at >= HEADER) {
        const length = data.readUInt32BE(at);
        if (data.length - at - HEADER < length) break;
        frames.push({
          operation: data.readUInt32BE(at + 4),
          kind: data[at + 8],
          payload: data.subarray(at + HEADER, at + HEADER + length),
        });
        at += HEADER + length;
      }
      rest = data.subarray(at);
      receive(frames);
    });
  };
  next();
}

module.exports = { kinds, setOperation, write, sendJson, sendMessage, listen, readSync };
