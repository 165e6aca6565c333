'use strict';
// TypeScript cells: the types are removed, and the rest runs as JavaScript.  The compiler is loaded with the first
// of them.

// Saved now, because a cell may declare these names, too.
const { Error, JSON, Object, String, SyntaxError, process } = globalThis;

const { SourceMap } = require('module');
const path = require('path');

const MODULES = process.env.CLOCHE_NODE_MODULES || '/opt/env/lib/node_modules';

let compiler = null;

/**
 * @param {string} source
 * @param {string} name the cell's, for messages
 * @returns {{code: string, map: object | null}} with `map`, lines have moved
 */
function strip(source, name) {
  const { transformSync } = load();
  const options = { filename: name, module: true, transform: { verbatimModuleSyntax: true, noEmptyExport: true } };
  try {
    // Types become blanks, so that every line and column stays.
    return { code: transformSync(source, { ...options, mode: 'strip-only' }).code, map: null };
  } catch (problem) {
    if (!problem || problem.code !== 'UnsupportedSyntax') throw syntaxError(problem, name);
  }
  try {
    // Enums, namespaces and parameter properties are more than types: the compiler writes code for them.
    const { code, map } = transformSync(source, { ...options, mode: 'transform', sourceMap: true });
    return { code, map: lineMap(new SourceMap(JSON.parse(map))) };
  } catch (problem) {
    throw syntaxError(problem, name);
  }
}

function load() {
  if (compiler === null) {
    try {
      compiler = require(path.join(MODULES, '@swc/wasm-typescript'));
    } catch (problem) {
      const missing = new Error('TypeScript is not available: its compiler is missing from the sandbox environment');
      missing.cause = problem;
      throw missing;
    }
  }
  return compiler;
}

function lineMap(map) {
  return {
    line(line, column) {
      const entry = map.findEntry(line - 1, column - 1);
      return entry && entry.originalLine !== undefined
        ? [entry.originalLine + 1, entry.originalColumn + 1]
        : [line, column];
    },
  };
}

function syntaxError(problem, name) {
  const message = problem && problem.message ? problem.message : String(problem);
  const error = new SyntaxError(message);
  const place = { name, line: problem.startLine || 1, column: (problem.startColumn || 0) + 1 };
  Object.defineProperty(error, 'place', { value: place });
  return error;
}

module.exports = { strip };
