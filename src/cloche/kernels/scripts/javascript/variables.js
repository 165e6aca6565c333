'use strict';
// Lists the variables of the session.  V8's inspector describes values without calling getters, proxies or methods, so
// nothing that a cell has defined runs for the list.

// Saved now, because a cell may declare or replace these.
const { Date, JSON, Map, Object, Set, String } = globalThis;

const { stringify } = JSON;
const { getOwnPropertyDescriptor, getOwnPropertyNames } = Object;
const MOST = 1000; // variables in one answer
const SHOWN = 120; // characters of a value in the list
const LOOKED_AT = 8000; // characters of a single value
const BYTES = 500_000; // of all values: the answer has to fit into one frame
const MS = 1000; // after which values are not looked at any more

const known = new Set(); // the names that Node and this kernel have defined

/** Remembers the globals that are no variables of the user. */
function install() {
  for (const name of getOwnPropertyNames(globalThis)) known.add(name);
}

/** Returns the variables whose names contain `search`, or only the one called `name`, with more of its value. */
function list(session, { search = '', name = '' }) {
  let lexical = [];
  session.post('Runtime.globalLexicalScopeNames', {}, (refused, reply) => {
    if (!refused) lexical = reply.names;
  });
  const places = new Map(); // by name: the expression for the value
  for (const one of getOwnPropertyNames(globalThis)) {
    if (known.has(one)) continue;
    const isValue = 'value' in (getOwnPropertyDescriptor(globalThis, one) || {}); // and not a getter
    places.set(one, isValue ? `globalThis[${stringify(one)}]` : null);
  }
  for (const one of lexical) places.set(one, one);
  const wanted = search.toLowerCase();
  const found = [...places.keys()].filter((one) => one.length <= 100 && (name ? one === name : one.toLowerCase().includes(wanted))).sort(inOrder);
  const end = Date.now() + MS;
  let room = BYTES;
  const items = found.slice(0, MOST).map((one) => {
    const described = { name: one, type: '', shape: '', size: 0, shown: '' };
    if (Date.now() > end || room < 0 || places.get(one) === null) return described;
    describe(session, places.get(one), described, name ? LOOKED_AT : SHOWN);
    room -= stringify(described).length;
    return described;
  });
  session.post('Runtime.releaseObjectGroup', { objectGroup: 'list' });
  return { items, total: found.length };
}

/** By letters, capitals first where only these differ. */
function inOrder(a, b) {
  const [one, other] = [a.toLowerCase(), b.toLowerCase()];
  return one < other || (one === other && a < b) ? -1 : 1;
}

function describe(session, place, described, room) {
  const length = evaluate(session, `typeof ${place} === 'string' ? ${place}.length : -1`);
  if (length && length.value > 10 * LOOKED_AT) { // V8 would copy all of it
    described.type = 'string';
    described.shape = String(length.value);
    return;
  }
  const value = evaluate(session, place);
  if (!value) {
    described.type = 'not readable'; // a getter, or a declaration whose cell failed before it
    return;
  }
  described.type = value.subtype === 'null' ? 'null' : (value.type === 'object' && value.className) || value.type;
  if (value.type === 'string') described.shape = String(value.value.length);
  else if (value.subtype) described.shape = (/\((\d+)\)$/.exec(value.description || '') || ['', ''])[1];
  const text = textOf(value, room);
  described.shown = text.length > room ? `${text.slice(0, room - 1)}…` : text;
}

function evaluate(session, expression) {
  let found = null;
  const options = { expression, generatePreview: true, throwOnSideEffect: true, silent: true, objectGroup: 'list' };
  session.post('Runtime.evaluate', options, (refused, reply) => {
    if (!refused && !reply.exceptionDetails) found = reply.result;
  });
  return found;
}

function textOf(value, room) {
  if (value.type === 'string') return room === LOOKED_AT ? value.value.slice(0, room + 1) : stringify(value.value.slice(0, room));
  if (value.type === 'function') return (value.description || '').slice(0, room + 1).split(room === LOOKED_AT ? '\0' : '\n')[0];
  if (value.preview) return previewText(value.preview);
  return value.description === undefined ? String(value.value === undefined ? 'undefined' : value.value) : value.description;
}

/** Writes V8's preview of an object: at most a hundred items of an array, a few properties of another object. */
function previewText(preview) {
  const { subtype, properties = [], entries, overflow, description = '' } = preview;
  if (['date', 'regexp', 'error', 'promise', 'proxy', 'weakmap', 'weakset', 'generator'].includes(subtype)) return description;
  const isList = subtype === 'array' || subtype === 'typedarray';
  const parts = entries
    ? entries.map(({ key, value }) => (key ? `${inner(key)} => ${inner(value)}` : inner(value)))
    : properties.filter((one) => !isList || /^\d+$/.test(one.name)).map((one) => (isList ? member(one) : `${one.name}: ${member(one)}`));
  const text = [...parts, ...(overflow ? ['…'] : [])].join(', ');
  const name = description === 'Object' || isList ? '' : `${description} `;
  return isList ? `[${text}]` : `${name}{${text}}`;
}

const inner = (preview) => (preview.type === 'string' ? stringify(preview.description) : preview.description || preview.type);
const member = ({ type, value = '' }) => (type === 'string' ? stringify(value) : type === 'function' ? 'function' : value || type);

module.exports = { install, list };
