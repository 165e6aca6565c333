'use strict';
// `import` and `export` in cells.  V8's REPL mode takes scripts, not modules, so declarations become calls of a helper;
// every line stays in its place.

// Saved now, because a cell may declare these names, too.
const { Error, JSON, Map, Object, Set, URL, process } = globalThis;

const Module = require('module');
const path = require('path');
const { pathToFileURL } = require('url');
const { tokenize } = require('./tokens.js');

const DYNAMIC = '__import__';
const STATIC = '__importAll__';
const META = '__importMeta__';

const DECLARES = new Set(['const', 'let', 'var', 'function', 'class', 'async']);

/**
 * Turns the cell into a script.
 * @param {string} source
 * @param {boolean} typed it was TypeScript: an import may be a type, which does not exist at run time
 */
function rewrite(source, typed) {
  if (!/\b(import|export)\b/.test(source)) return source;
  const tokens = tokenize(source);
  const edits = [];
  for (let i = 0; i < tokens.length; i++) {
    const { type, text } = tokens[i];
    if (type !== 'word' || (text !== 'import' && text !== 'export') || isProperty(tokens[i - 1])) continue;
    const edit = text === 'import' ? importAt(source, tokens, i, typed) : exportAt(source, tokens, i);
    if (edit) edits.push(edit);
  }
  let result = '';
  let at = 0;
  for (const [start, end, text] of edits) {
    if (start < at) continue;
    result += source.slice(at, start) + text;
    at = end;
  }
  return result + source.slice(at);
}

function isProperty(before) {
  return !!before && (before.text === '.' || before.text === '?.');
}

function importAt(source, tokens, i, typed) {
  const token = tokens[i];
  const next = tokens[i + 1];
  if (!next) return null;
  if (next.text === '(') return isMethod(source, tokens, i) ? null : [token.start, token.end, DYNAMIC];
  if (next.text === '.') {
    const meta = tokens[i + 2];
    return meta && meta.text === 'meta' ? [token.start, meta.end, META] : null;
  }
  if (token.depth > 0) return null;
  const found = clauseAt(tokens, i + 1);
  if (found === null) return null;
  const [end, attributes] = afterSpecifier(source, tokens, found.specifier);
  const names = typed ? 'null' : JSON.stringify(found.names);
  const call = `await ${STATIC}(${tokens[found.specifier].text}, ${attributes}, ${names})`;
  return [token.start, end, declaration(found, call) + linesOf(source, token.start, end)];
}

function declaration({ star, bindings }, call) {
  const pattern = `{${bindings.join(', ')}}`;
  if (star) return bindings.length ? `const ${star} = ${call}, ${pattern} = ${star};` : `const ${star} = ${call};`;
  return bindings.length ? `const ${pattern} = ${call};` : `void (${call});`;
}

/** Parses what is between `import` and the module's name; null if this is not an import declaration. */
function clauseAt(tokens, i) {
  const found = { star: '', bindings: [], names: [], specifier: -1 };
  const text = () => (tokens[i] ? tokens[i].text : '');
  if (tokens[i].type === 'string') return { ...found, specifier: i };
  if (tokens[i].type === 'word') {
    found.bindings.push(`default: ${text()}`);
    found.names.push('default');
    i++;
    if (text() === ',') i++;
    else if (text() !== 'from') return null;
  }
  if (text() === '*') {
    if (!tokens[i + 2] || tokens[i + 1].text !== 'as') return null;
    found.star = tokens[i + 2].text;
    i += 3;
  } else if (text() === '{') {
    for (i++; text() !== '}'; ) {
      const name = tokens[i++];
      if (!name || (name.type !== 'word' && name.type !== 'string')) return null;
      let local = name.text;
      if (text() === 'as') {
        local = tokens[i + 1] && tokens[i + 1].text;
        i += 2;
      }
      found.bindings.push(local === name.text ? local : `${name.text}: ${local}`);
      found.names.push(name.type === 'string' ? name.text.slice(1, -1) : name.text);
      if (text() === ',') i++;
      else if (text() !== '}') return null;
    }
    i++;
  }
  if (text() !== 'from' || !tokens[i + 1] || tokens[i + 1].type !== 'string') return null;
  return { ...found, specifier: i + 1 };
}

/** Returns the end of the declaration whose module name is at `i`, and its attributes as an expression. */
function afterSpecifier(source, tokens, i) {
  let attributes = 'undefined';
  const word = tokens[i + 1];
  if (word && (word.text === 'with' || word.text === 'assert') && tokens[i + 2] && tokens[i + 2].text === '{') {
    const close = tokens.findIndex((token, at) => at > i + 2 && token.text === '}');
    if (close >= 0) {
      attributes = source.slice(tokens[i + 2].start, tokens[close].end).replace(/\s+/g, ' ');
      i = close;
    }
  }
  const last = tokens[i + 1] && tokens[i + 1].text === ';' ? tokens[i + 1] : tokens[i];
  return [last.end, attributes];
}

function isMethod(source, tokens, i) {
  const { depth } = tokens[i];
  const close = tokens.findIndex((token, at) => at > i + 1 && token.depth === depth && token.text === ')');
  const next = close < 0 ? null : tokens[close + 1];
  return !!next && next.text === '{' && !source.slice(tokens[close].end, next.start).includes('\n');
}

function exportAt(source, tokens, i) {
  const token = tokens[i];
  const next = tokens[i + 1];
  if (!next || token.depth > 0) return null;
  if (DECLARES.has(next.text)) return [token.start, token.end, blank(source, token.start, token.end)];
  if (next.text === 'default') {
    const text = isNamed(tokens, i + 2) ? blank(source, token.start, next.end) : 'exports.default =';
    return [token.start, next.end, text + (text.startsWith('e') ? linesOf(source, token.start, next.end) : '')];
  }
  if (next.text !== '{' && next.text !== '*') return null;
  let at = i + 1;
  while (tokens[at] && tokens[at].text !== '}' && tokens[at].text !== 'from') at++;
  if (tokens[at] && tokens[at].text === '}') at++;
  if (tokens[at] && tokens[at].text === 'from' && tokens[at + 1] && tokens[at + 1].type === 'string') {
    const [end] = afterSpecifier(source, tokens, at + 1);
    const call = `void (await ${STATIC}(${tokens[at + 1].text}));`;
    return [token.start, end, call + linesOf(source, token.start, end)];
  }
  const { end } = tokens[at] && tokens[at].text === ';' ? tokens[at] : tokens[at - 1];
  return [token.start, end, blank(source, token.start, end)];
}

/** Says whether a function or class with a name follows. */
function isNamed(tokens, i) {
  const text = (at) => (tokens[at] ? tokens[at].text : '');
  if (text(i) === 'async' && text(i + 1) === 'function') i++;
  if (text(i) !== 'function' && text(i) !== 'class') return false;
  if (text(i + 1) === '*') i++;
  return !!tokens[i + 1] && tokens[i + 1].type === 'word' && text(i + 1) !== 'extends';
}

function linesOf(source, start, end) {
  return source.slice(start, end).replace(/[^\n]/g, '');
}

function blank(source, start, end) {
  return source.slice(start, end).replace(/[^\n]/g, ' ');
}

/** An error as for a module that cannot be linked; V8's class of that name is for cells that it cannot parse. */
class MissingExport extends Error {}
MissingExport.prototype.name = 'SyntaxError';

const loaders = new Map(); // by folder

/** Imports a module dynamically, and finds it as a file in this folder would. */
function loaderFor(folder) {
  if (!loaders.has(folder)) {
    const file = path.join(folder, 'cell.js');
    const loader = new Module(file);
    loader.filename = file;
    loader.paths = Module._nodeModulePaths(folder);
    loader._compile('exports.load = (name, options) => options ? import(name, options) : import(name);', file);
    loaders.set(folder, loader.exports.load);
  }
  return loaders.get(folder);
}

function dynamicImport(name, options) {
  const attributes = options && (options.with || options.assert);
  // Node 18 knows only the older of the two words.
  return loaderFor(here())(name, attributes && { with: attributes, assert: attributes });
}

async function staticImport(name, attributes, names) {
  const module = await dynamicImport(name, attributes && { with: attributes });
  for (const wanted of names || []) {
    if (!(wanted in module)) {
      throw new MissingExport(`The requested module '${name}' does not provide an export named '${wanted}'`);
    }
  }
  return module;
}

const started = process.cwd();

/** Returns the folder where relative names start. */
function here() {
  try {
    return process.cwd();
  } catch {
    return started; // a cell has removed the working directory
  }
}

const requires = new Map(); // by folder

function requireHere() {
  const folder = here();
  if (!requires.has(folder)) requires.set(folder, Module.createRequire(path.join(folder, 'cell.js')));
  return requires.get(folder);
}

function makeRequire() {
  const { cache, extensions, main } = requireHere();
  const resolve = (name, options) => requireHere().resolve(name, options);
  resolve.paths = (name) => requireHere().resolve.paths(name);
  return Object.assign((name) => requireHere()(name), { cache, extensions, main, resolve });
}

/** Defines the names of a module's scope as globals. */
function install() {
  const file = path.join(started, 'cell.js');
  const module = new Module(file);
  module.filename = file;
  module.paths = Module._nodeModulePaths(started);
  const meta = {
    __proto__: null,
    get dirname() {
      return here();
    },
    get filename() {
      return path.join(here(), 'cell.js');
    },
    get url() {
      return pathToFileURL(meta.filename).href;
    },
    resolve: (name) => {
      if (/^\.{0,2}\//.test(name)) return new URL(name, meta.url).href;
      const found = requireHere().resolve(name);
      return path.isAbsolute(found) ? pathToFileURL(found).href : `node:${found.replace(/^node:/, '')}`;
    },
  };
  const globals = {
    require: makeRequire(),
    module,
    exports: module.exports,
    [DYNAMIC]: dynamicImport,
    [STATIC]: staticImport,
    [META]: meta,
  };
  for (const [name, value] of Object.entries(globals)) define(name, { value, writable: true });
  for (const [name, part] of [['__filename', 'filename'], ['__dirname', 'dirname']]) {
    define(name, { get: () => meta[part], set: (value) => define(name, { value, writable: true }) });
  }
}

function define(name, property) {
  Object.defineProperty(globalThis, name, { ...property, configurable: true, enumerable: false });
}

module.exports = { rewrite, install };
