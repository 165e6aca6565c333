/** JSON as its own text: the parts that nobody edits stay exactly as their author wrote them. Needs no DOM.

The text must be valid, so call `JSON.parse` first; then a part ends where its brackets and strings are closed. */

/** The members of an object, in order: each name, and the text of its value. */
export type Members = [name: string, raw: string][];

/** The elements of an array, each as its text. */
export function elementsOf(text: string): string[] {
  return parts(text).map(([start, end]) => text.slice(start, end).trim());
}

export function membersOf(text: string): Members {
  return parts(text).map(([start, end]) => {
    const opening = text.indexOf('"', start);
    const closing = endOfString(text, opening);
    const name = JSON.parse(text.slice(opening, closing)) as string;
    return [name, text.slice(text.indexOf(":", closing) + 1, end).trim()];
  });
}

export const memberOf = (members: Members, name: string): string | undefined => members.find(([one]) => one === name)?.[1];

/** The members with another value for this name, which is added at its place in the alphabet if it is new. */
export function withMember(members: Members, name: string, raw: string): Members {
  if (members.some(([one]) => one === name)) return members.map(([one, was]) => [one, one === name ? raw : was]);
  const at = members.findIndex(([one]) => one > name);
  const before = at < 0 ? members.length : at;
  return [...members.slice(0, before), [name, raw], ...members.slice(before)];
}

export const withoutMembers = (members: Members, ...names: string[]): Members => members.filter(([one]) => !names.includes(one));

/** How a file is written: the indentation of one level; empty for a file in one line. */
export const unitOf = (text: string): string => /^\s*[[{]\r?\n([ \t]+)/.exec(text)?.[1] ?? (text.includes("\n") || !text.trim() ? " " : "");

/** An object of such members, with the indentation of its depth. */
export function objectOf(members: Members, unit: string, depth: number): string {
  if (members.length === 0) return "{}";
  return enclosed("{", members.map(([name, raw]) => `${JSON.stringify(name)}:${unit && " "}${raw}`), "}", unit, depth);
}

export const arrayOf = (elements: string[], unit: string, depth: number): string =>
  elements.length === 0 ? "[]" : enclosed("[", elements, "]", unit, depth);

/** A value that is written anew. */
export function rawOf(value: unknown, unit: string, depth: number): string {
  const text = JSON.stringify(value, null, unit);
  return unit ? text.replaceAll("\n", `\n${unit.repeat(depth)}`) : text; // a string has no line end of its own
}

function enclosed(begin: string, contents: string[], end: string, unit: string, depth: number): string {
  if (!unit) return begin + contents.join(",") + end;
  const line = `\n${unit.repeat(depth)}`;
  return `${begin}${contents.map((one) => line + unit + one).join(",")}${line}${end}`;
}

/** Where the parts of an array or object begin and end: what its commas separate. */
function parts(text: string): [start: number, end: number][] {
  const found: [number, number][] = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    const letter = text[at];
    if (letter === '"') at = endOfString(text, at) - 1;
    else if (letter === "[" || letter === "{") {
      if (++depth === 1) start = at + 1;
    } else if (letter === "]" || letter === "}") {
      if (--depth === 0 && text.slice(start, at).trim()) found.push([start, at]);
    } else if (letter === "," && depth === 1) {
      found.push([start, at]);
      start = at + 1;
    }
  }
  return found;
}

/** The position after a string that opens here. */
function endOfString(text: string, opening: number): number {
  let at = text.indexOf('"', opening + 1);
  while (at > 0 && isEscaped(text, at)) at = text.indexOf('"', at + 1);
  return at < 0 ? text.length : at + 1;
}

function isEscaped(text: string, at: number): boolean {
  let slashes = 0;
  while (text[at - 1 - slashes] === "\\") slashes++;
  return slashes % 2 === 1;
}
