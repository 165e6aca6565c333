'use strict';
// Just enough of JavaScript's grammar to tell code from strings, comments and regular expressions.

// Saved now, because a cell may declare these names, too.
const { Set } = globalThis;

const WORD = /[\p{ID_Start}$_#\\][\p{ID_Continue}$\u200c\u200d\\]*/uy;
const NUMBER = /\.?[0-9][\w.]*/y;
const PUNCTUATOR = /\.\.\.|=>|\?\.(?![0-9])|\+\+|--|[^]/uy;
const FLAGS = /[\p{ID_Continue}$]*/uy;

// After these words a slash starts a regular expression; after other words it divides.
const OPERATORS = new Set(
  'await case delete do else extends in instanceof new of return throw typeof void yield'.split(' '),
);
const HEADS = new Set(['if', 'while', 'for', 'with']);

/**
 * @typedef {{type: 'word' | 'number' | 'string' | 'template' | 'regex' | 'punctuator', text: string, start: number,
 *   end: number, depth: number}} Token
 *
 * @param {string} source
 * @returns {Token[]} up to the first text that is not JavaScript: V8 will report it
 */
function tokenize(source) {
  const tokens = [];
  const open = []; // the brackets around the current position: {text, before, value}
  let at = source.startsWith('#!') ? endOfLine(source, 0) : 0;
  let closed = null; // the bracket that the last token closed

  const push = (type, end) => {
    tokens.push({ type, text: source.slice(at, end), start: at, end, depth: open.length });
    at = end;
  };

  const templateFrom = (start) => {
    for (let i = start; i < source.length; i++) {
      if (source[i] === '\\') i++;
      else if (source[i] === '`') return void push('template', i + 1);
      else if (source[i] === '$' && source[i + 1] === '{') {
        push('punctuator', i + 2);
        tokens[tokens.length - 1].text = '${';
        open.push({ text: '${', value: true });
        return undefined;
      }
    }
    at = -1;
    return undefined;
  };

  while (at >= 0 && at < source.length) {
    const char = source[at];
    if (/\s/.test(char)) at++;
    else if (char === '/' && source[at + 1] === '/') at = endOfLine(source, at);
    else if (char === '/' && source[at + 1] === '*') {
      const end = source.indexOf('*/', at + 2);
      at = end < 0 ? -1 : end + 2;
    } else if (char === '"' || char === "'") {
      const end = endOfString(source, at);
      if (end < 0) return tokens;
      push('string', end);
    } else if (char === '`') templateFrom(at + 1);
    else if (char === '/' && isRegexPlace(tokens[tokens.length - 1], closed)) {
      const end = endOfRegex(source, at);
      if (end < 0) return tokens;
      push('regex', end);
    } else if (matches(NUMBER, source, at)) push('number', NUMBER.lastIndex);
    else if (matches(WORD, source, at)) push('word', WORD.lastIndex);
    else if (char === '(' || char === '[' || char === '{') {
      const before = tokens[tokens.length - 1];
      push('punctuator', at + 1);
      open.push({ text: char, before, value: char !== '{' || isValuePlace(before) });
    } else if (char === ')' || char === ']' || char === '}') {
      closed = open.pop();
      if (!closed) return tokens;
      if (char === '}' && closed.text === '${') templateFrom(at + 1);
      else push('punctuator', at + 1);
    } else {
      matches(PUNCTUATOR, source, at);
      push('punctuator', PUNCTUATOR.lastIndex);
    }
  }
  return tokens;
}

function matches(pattern, source, at) {
  pattern.lastIndex = at;
  return pattern.test(source);
}

function endOfLine(source, at) {
  const found = source.slice(at).search(/[\n\r\u2028\u2029]/);
  return found < 0 ? source.length : at + found;
}

function endOfString(source, at) {
  for (let i = at + 1; i < source.length; i++) {
    if (source[i] === '\\') i++;
    else if (source[i] === source[at]) return i + 1;
    else if (source[i] === '\n') return -1;
  }
  return -1;
}

function endOfRegex(source, at) {
  let inClass = false;
  for (let i = at + 1; i < source.length; i++) {
    const char = source[i];
    if (char === '\\') i++;
    else if (char === '\n') return -1;
    else if (char === '[') inClass = true;
    else if (char === ']') inClass = false;
    else if (char === '/' && !inClass) {
      matches(FLAGS, source, i + 1);
      return FLAGS.lastIndex;
    }
  }
  return -1;
}

/** Says whether a value may start after this token; if so, a slash starts a regular expression there. */
function isRegexPlace(before, closed) {
  if (!before) return true;
  if (before.type === 'word') return OPERATORS.has(before.text);
  if (before.type !== 'punctuator') return false;
  switch (before.text) {
    case ')': // `if (x) /re/.test(y)`, but `(a + b) / 2`
      return !!closed.before && closed.before.type === 'word' && HEADS.has(closed.before.text);
    case '}': // after a block, but not after an object
      return !closed.value;
    case ']':
    case '++':
    case '--':
      return false;
    default:
      return true;
  }
}

/** Says whether a brace after this token starts an object, not a block. */
function isValuePlace(before) {
  if (!before) return false;
  if (before.type === 'word') return OPERATORS.has(before.text) && before.text !== 'do' && before.text !== 'else';
  if (before.type !== 'punctuator') return false;
  return !['=>', ')', ';', '{', '}', ':'].includes(before.text);
}

module.exports = { tokenize };
