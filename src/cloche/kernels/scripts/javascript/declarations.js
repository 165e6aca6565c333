'use strict';
// Names that are declared again.  V8's REPL mode allows `let` after `let` and `const` after `const`, but no mixture.
// The author of a cell does not remember which one an earlier cell used.

const { tokenize } = require('./tokens.js');

const LEXICAL = { let: 'var', class: 'var' };
const HOISTED = { var: 'let', function: 'let' };

/** Turns `const` at the top level of a cell into `let`, so that later cells can assign it. */
function relax(source) {
  if (!/\bconst\b/.test(source)) return source;
  const tokens = tokenize(source);
  let result = '';
  let at = 0;
  for (const [i, token] of tokens.entries()) {
    if (token.text !== 'const' || token.depth > 0 || !isKeyword(tokens, i)) continue;
    result += `${source.slice(at, token.start)}let  `; // as long as `const`, so that columns stay
    at = token.end;
  }
  return result + source.slice(at);
}

/**
 * Moves the declaration of `name` to the other of two groups (`let` and `class`; `var` and `function`), because an
 * earlier cell has declared the name there; null when there is no such declaration.
 */
function convert(source, name) {
  const tokens = tokenize(source);
  for (const [i, token] of tokens.entries()) {
    if (token.depth > 0 || token.type !== 'word' || !isKeyword(tokens, i)) continue;
    const other = LEXICAL[token.text] || HOISTED[token.text];
    if (other === undefined || !declares(tokens, i, name)) continue;
    if (token.text === 'let' || token.text === 'var') {
      return source.slice(0, token.start) + other + source.slice(token.end);
    }
    const start = tokens[i - 1] && tokens[i - 1].text === 'async' ? tokens[i - 1].start : token.start;
    const end = endOfBody(tokens, i);
    return `${source.slice(0, start)}${other} ${name} = ${source.slice(start, end)};${source.slice(end)}`;
  }
  return null;
}

/** Returns the end of the function or class, where its replacement needs a semicolon. */
function endOfBody(tokens, i) {
  const open = tokens.findIndex((token, at) => at > i && token.depth === 0 && token.text === '{');
  const close = tokens.findIndex((token, at) => at > open && token.depth === 0 && token.text === '}');
  return close < 0 ? tokens[tokens.length - 1].end : tokens[close].end;
}

function isKeyword(tokens, i) {
  const before = tokens[i - 1];
  return (!before || (before.text !== '.' && before.text !== '?.')) && !!tokens[i + 1] && tokens[i + 1].text !== ':';
}

function declares(tokens, i, name) {
  if (tokens[i].text === 'class' || tokens[i].text === 'function') {
    const at = tokens[i + 1].text === '*' ? i + 2 : i + 1;
    const before = tokens[i - 1]; // a declaration, not an expression
    const begins = !before || [';', '}', 'async'].includes(before.text) || before.type !== 'punctuator';
    return begins && !!tokens[at] && tokens[at].text === name;
  }
  for (let at = i + 1; at < tokens.length; at++) {
    const { text, depth, type } = tokens[at];
    if (depth === 0 && (text === ';' || ((text in LEXICAL || text in HOISTED) && at > i + 1))) return false;
    if (type === 'word' && text === name && tokens[at - 1].text !== '.') return true;
  }
  return false;
}

module.exports = { relax, convert };
