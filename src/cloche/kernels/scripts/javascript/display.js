'use strict';
// The forms of a value: its MIME types, with limits.

// Saved now, because a cell may declare these names, too.
const { Array, Buffer, Error, JSON, Number, Object, String, Symbol } = globalThis;

const util = require('util');

const TEXT_BYTES = 1 << 20;
const DATA_BYTES = 5 << 20;
const DEPTH = 64;
const NODES = 500_000;

const DESCRIBES = [Symbol.for('cloche.display'), Symbol.for('Jupyter.display')];

const { inspect } = util; // saved now: a cell may replace them
const { byteLength, from } = Buffer;
const { stringify } = JSON;
const { isProxy, isDate, isUint8Array } = util.types; // no object can deceive these

/** Formats a value as Node's own REPL does. */
function textOf(value) {
  const nested = value !== null && typeof value === 'object';
  try {
    return cut(
      inspect(value, { depth: 4, maxArrayLength: 100, maxStringLength: nested ? 10_000 : TEXT_BYTES, colors: false }),
    );
  } catch (problem) {
    return `[${safeTag(value)}: inspecting it failed: ${messageOf(problem)}]`;
  }
}

/**
 * Returns the value's MIME bundle, or a promise of it if the value describes itself asynchronously.
 * @returns {Record<string, unknown> | Promise<Record<string, unknown>>}
 */
function bundleOf(value) {
  try {
    return describedOf(value);
  } catch (problem) {
    return failed(problem, value);
  }
}

function describedOf(value) {
  const described = ownDescription(value);
  if (described === undefined) return plainBundle(value);
  if (described !== null && typeof described.then === 'function') {
    return described.then(
      (bundle) => checked(bundle, value),
      (problem) => failed(problem, value),
    );
  }
  return checked(described, value);
}

function ownDescription(value) {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function') || isProxy(value)) return undefined;
  for (const symbol of DESCRIBES) {
    if (typeof value[symbol] === 'function') return value[symbol]();
  }
  return undefined;
}

function failed(problem, value) {
  return { 'text/plain': `${textOf(value)}\n[displaying it failed: ${messageOf(problem)}]` };
}

function plainBundle(value) {
  const bundle = { 'text/plain': textOf(value) };
  const image = imageTypeOf(value);
  if (image) addBinary(bundle, image, value);
  else if (value !== null && typeof value === 'object') {
    const json = jsonOf(value);
    if (json !== undefined) bundle['application/json'] = json;
  }
  return bundle;
}

/** Makes a bundle from a cell safe to send. */
function checked(bundle, value) {
  if (bundle === null || typeof bundle !== 'object') return plainBundle(value === undefined ? bundle : value);
  const result = {};
  const left = [];
  for (const [type, data] of Object.entries(bundle)) {
    if (!/^[\w.+-]+\/[\w.+;=-]+$/.test(type) || data === undefined || data === null) continue;
    if (isUint8Array(data)) addBinary(result, type, data);
    else if (typeof data === 'string') {
      if (type === 'text/plain') result[type] = cut(data);
      else if (data.length <= DATA_BYTES && byteLength(data) <= DATA_BYTES) result[type] = data;
      else left.push(type);
    } else {
      const json = jsonOf(data);
      if (json === undefined) left.push(type);
      else result[type] = json;
    }
  }
  const note = left.map((type) => `[${type} left out: too large, or not JSON]`).join('\n');
  if (note || Object.keys(result).length === 0) {
    result['text/plain'] = [result['text/plain'], note || textOf(value)].filter(Boolean).join('\n');
  }
  return result;
}

function addBinary(bundle, type, bytes) {
  if (bytes.length <= DATA_BYTES) {
    bundle[type] = from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
  } else bundle['text/plain'] = `[${type} of ${bytes.length} bytes left out: more than ${DATA_BYTES}]`;
}

function imageTypeOf(value) {
  if (!isUint8Array(value) || value.length < 8) return null;
  if (value[0] === 0x89 && value[1] === 0x50 && value[2] === 0x4e && value[3] === 0x47) return 'image/png';
  if (value[0] === 0xff && value[1] === 0xd8 && value[2] === 0xff) return 'image/jpeg';
  return null;
}

/** Returns a copy of the value that is only JSON; undefined if it has anything else in it, or too much. */
function jsonOf(value) {
  let room = DATA_BYTES;
  let nodes = NODES;
  const stop = new Error('not JSON');

  const copy = (thing, depth) => {
    if (--nodes < 0 || room < 0 || depth > DEPTH) throw stop;
    switch (typeof thing) {
      case 'string':
        room -= thing.length + 2;
        return thing;
      case 'number':
        room -= 8;
        return Number.isFinite(thing) ? thing : null;
      case 'boolean':
        room -= 5;
        return thing;
      case 'object':
        if (thing === null) return null;
        return copyObject(thing, depth);
      default:
        throw stop;
    }
  };
  const copyObject = (thing, depth) => {
    if (isProxy(thing)) throw stop;
    if (isDate(thing) && !Number.isNaN(+thing)) return Date.prototype.toISOString.call(thing);
    if (Array.isArray(thing)) {
      if (thing.length > nodes) throw stop;
      const list = [];
      for (let i = 0; i < thing.length; i++) list.push(valueOf(thing, i) === undefined ? null : copy(thing[i], depth + 1));
      return list;
    }
    const prototype = Object.getPrototypeOf(thing);
    if (prototype !== null && prototype !== Object.prototype) throw stop;
    if (typeof thing.toJSON === 'function') throw stop;
    const object = {};
    for (const key of Object.keys(thing)) {
      const inner = valueOf(thing, key);
      room -= key.length + 3;
      if (inner !== undefined) {
        Object.defineProperty(object, key, { value: copy(inner, depth + 1), enumerable: true });
      }
    }
    return object;
  };
  const valueOf = (thing, key) => {
    const property = Object.getOwnPropertyDescriptor(thing, key);
    if (property && property.get) throw stop; // a getter may do anything
    return property && property.value;
  };

  try {
    const result = copy(value, 0);
    return byteLength(stringify(result)) <= DATA_BYTES ? result : undefined;
  } catch {
    return undefined;
  }
}

function cut(text) {
  if (text.length * 3 <= TEXT_BYTES || byteLength(text) <= TEXT_BYTES) return text;
  const note = `\n[… cut at ${TEXT_BYTES} bytes]`;
  const bytes = from(text).subarray(0, TEXT_BYTES - byteLength(note));
  return bytes.toString().replace(/\ufffd$/, '') + note;
}

function safeTag(value) {
  try {
    return Object.prototype.toString.call(value).slice(8, -1);
  } catch {
    return 'Object';
  }
}

function messageOf(problem) {
  try {
    return String((problem && problem.message) || problem).slice(0, 1000);
  } catch {
    return 'unknown';
  }
}

module.exports = { bundleOf, checked, textOf, cut, messageOf };
