'use strict';
// Errors for a cell's author: with the lines of cells, and none of the kernel's.

// Saved now, because a cell may declare these names, too.
const { Error, Map, String } = globalThis;

const path = require('path');
const util = require('util');
const { FRAME } = require('./interrupts.js');
const { cut, messageOf, textOf } = require('./display.js');

const KEPT_CELLS = 1000;
const LINE = 300; // characters of a source line that is shown

const OURS = __dirname + path.sep;
const KERNEL = path.join(path.dirname(__dirname), 'javascript.js');

/** @type {Map<string, {source: string, map: {line(line: number, column: number): [number, number]} | null}>} */
const cells = new Map();

/** Remembers a cell's source, to show the line that failed; `map` finds the author's line in the code that was run. */
function remember(name, source, map = null) {
  cells.set(name, { source, map });
  if (cells.size > KEPT_CELLS) cells.delete(cells.keys().next().value);
}

function install() {
  Error.prepareStackTrace = (error, sites) => {
    let text;
    try {
      text = Error.prototype.toString.call(error);
    } catch {
      text = 'Error';
    }
    const frames = [];
    for (const site of sites) {
      const file = site.getFileName();
      if (file === FRAME || file === 'node:inspector') break; // the frames below run the cell
      if (typeof file === 'string' && (file === KERNEL || file.startsWith(OURS))) continue;
      frames.push(site);
    }
    while (frames.length && isInternal(frames[frames.length - 1])) frames.pop();
    for (const frame of frames) text += `\n    at ${mapped(String(frame))}`;
    return text;
  };
}

function isInternal(site) {
  return String(site.getFileName()).startsWith('node:internal/');
}

function mapped(frame) {
  return frame.replace(/(cell-\d+\.ts):(\d+):(\d+)/, (whole, name, line, column) => {
    const cell = cells.get(name);
    if (!cell || !cell.map) return whole;
    const [mappedLine, mappedColumn] = cell.map.line(+line, +column);
    return `${name}:${mappedLine}:${mappedColumn}`;
  });
}

/**
 * Returns the message that reports an error.
 * @param {unknown} problem what was thrown
 * @param {{name: string, line: number, column: number} | null} place of a cell that did not compile
 */
function describe(problem, place = null) {
  if (!isError(problem)) {
    const message = textOf(problem);
    return { type: 'error', name: 'Uncaught', message, traceback: `Uncaught ${message}`, ansi: `Uncaught ${message}` };
  }
  const head = excerpt(place || placeOf(problem));
  return {
    type: 'error',
    name: nameOf(problem),
    message: cut(messageOf(problem)),
    traceback: head + shown(problem, false),
    ansi: head + shown(problem, true),
  };
}

function isError(problem) {
  try {
    return util.types.isNativeError(problem) || (!util.types.isProxy(problem) && problem instanceof Error);
  } catch {
    return false;
  }
}

/** Reports an error of the kernel, not of JavaScript. */
function plain(name, message) {
  const text = message ? `${name}: ${message}` : name;
  return { type: 'error', name, message, traceback: text, ansi: `\x1b[31m${text}\x1b[39m` };
}

function nameOf(problem) {
  try {
    return String(problem.name || problem.constructor.name);
  } catch {
    return 'Error';
  }
}

function shown(problem, colors) {
  try {
    const text = util.inspect(problem, { depth: 4, colors, maxStringLength: 10_000 });
    return cut(text === `[${problem.stack}]` ? problem.stack : text); // without frames, inspect adds brackets
  } catch {
    return `${nameOf(problem)}: ${messageOf(problem)}`;
  }
}

function placeOf(problem) {
  let found;
  try {
    // The first frame of a cell, if only Node's own functions are above it.
    for (const line of String(problem.stack).split('\n')) {
      if (!/^ {4}at /.test(line)) continue;
      found = /(cell-\d+\.[jt]s):(\d+):(\d+)\)?$/.exec(line);
      if (found || !/\(node:|<anonymous>/.test(line)) break;
    }
  } catch {
    return null;
  }
  return found ? { name: found[1], line: +found[2], column: +found[3] } : null;
}

function excerpt(place) {
  if (!place || !cells.has(place.name)) return '';
  const lines = cells.get(place.name).source.split('\n');
  const line = Math.min(place.line, lines.length);
  const text = lines[line - 1].replace(/\r$/, '');
  const column = line < place.line ? text.length + 1 : place.column;
  if (text.length > LINE) return `${place.name}:${line}\n\n`;
  const caret = column > 0 && column <= text.length + 1 ? `\n${text.slice(0, column - 1).replace(/\S/g, ' ')}^` : '';
  return `${place.name}:${line}\n${text}${caret}\n\n`;
}

module.exports = { install, remember, describe, plain };
