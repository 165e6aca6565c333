/** Colours of terminals: a line with escape sequences, as pieces that have a style each. */

export interface Span {
  text: string;
  /** Names of classes in output.css, and colours that have no name. */
  classes: string;
  color?: string;
  background?: string;
}

interface Style {
  foreground: string | null;
  background: string | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  strike: boolean;
  inverse: boolean;
}

const plain: Style = {
  foreground: null,
  background: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  strike: false,
  inverse: false,
};
const names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
// Other escape sequences and control characters, which are not shown.
const NOISE = /\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[\d;:?<>=!]*[ -/]*[@-ln-~]|\x1b[@-Z\\^_=>()][AB012]?|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]/g;
const SGR = /\x1b\[([\d;:]*)m/g;

/** A line's text alone. */
export const withoutColours = (text: string): string =>
  text.includes("\x1b") ? text.replace(NOISE, "").replace(SGR, "") : text;

/** Splits a line into pieces; `style` is the style that earlier lines left on. */
export function spans(line: string, style = ""): Span[] {
  const text = style + line;
  if (!text.includes("\x1b")) return text ? [{ text, classes: "" }] : [];
  const clean = text.replace(NOISE, "");
  const found: Span[] = [];
  let now = plain;
  let start = 0;
  for (const match of clean.matchAll(SGR)) {
    push(found, clean.slice(start, match.index), now);
    now = changed(now, match[1] ?? "");
    start = match.index + match[0].length;
  }
  push(found, clean.slice(start).replaceAll("\x1b", ""), now);
  return found;
}

function push(found: Span[], text: string, style: Style): void {
  if (!text) return;
  // Black on a colour is meant to be readable; our colours are readable with the usual ink.
  const own = style.background && style.foreground === "black" ? null : style.foreground;
  const [foreground, background] = style.inverse ? [style.background ?? "surface", style.foreground ?? "ink"] : [own, style.background];
  const classes = [
    style.bold && "ansi-bold",
    style.dim && "ansi-dim",
    style.italic && "ansi-italic",
    style.underline && "ansi-underline",
    style.strike && "ansi-strike",
  ]
    .filter(Boolean)
    .join(" ");
  found.push({
    text,
    classes,
    ...(foreground ? { color: background ? colour(foreground) : readable(foreground) } : {}),
    ...(background ? { background: style.inverse ? colour(background) : tinted(background) } : {}),
  });
}

const colour = (name: string): string =>
  name.startsWith("#") ? name : name === "surface" || name === "ink" ? `var(--${name})` : `var(--ansi-${name})`;

// A colour without a name was chosen for one background, dark or light; ours may be the other.
const readable = (name: string): string => (name.startsWith("#") ? `color-mix(in oklab, ${name} 50%, var(--ink))` : colour(name));

// Text keeps its own colour, which has to be readable on it.
const tinted = (name: string): string => (name.startsWith("#") ? name : `color-mix(in oklab, ${colour(name)} 28%, transparent)`);

function changed(style: Style, text: string): Style {
  const codes = text.split(/[;:]/).map(Number);
  let now = style;
  for (let index = 0; index < codes.length; index++) {
    const code = codes[index] ?? 0;
    if (code === 38 || code === 48) {
      const [value, used] = extended(codes.slice(index + 1));
      now = { ...now, [code === 38 ? "foreground" : "background"]: value };
      index += used;
    } else now = single(now, code);
  }
  return now;
}

function single(now: Style, code: number): Style {
  if (code === 0) return plain;
  if (code >= 30 && code <= 37) return { ...now, foreground: names[code - 30] ?? null };
  if (code >= 90 && code <= 97) return { ...now, foreground: names[code - 90] ?? null };
  if (code >= 40 && code <= 47) return { ...now, background: names[code - 40] ?? null };
  if (code >= 100 && code <= 107) return { ...now, background: names[code - 100] ?? null };
  switch (code) {
    case 1:
      return { ...now, bold: true };
    case 2:
      return { ...now, dim: true };
    case 3:
      return { ...now, italic: true };
    case 4:
      return { ...now, underline: true };
    case 7:
      return { ...now, inverse: true };
    case 9:
      return { ...now, strike: true };
    case 22:
      return { ...now, bold: false, dim: false };
    case 23:
      return { ...now, italic: false };
    case 24:
      return { ...now, underline: false };
    case 27:
      return { ...now, inverse: false };
    case 29:
      return { ...now, strike: false };
    case 39:
      return { ...now, foreground: null };
    case 49:
      return { ...now, background: null };
    default:
      return now;
  }
}

/** Parses a 256-colour or RGB value; also returns how many numbers it used. */
function extended(codes: number[]): [string | null, number] {
  if (codes[0] === 5) return [ofPalette(codes[1] ?? 0), 2];
  if (codes[0] === 2) return [hex(codes.slice(1, 4)), 4];
  return [null, 0];
}

const hex = (parts: number[]): string =>
  `#${parts.map((part) => Math.min(255, part || 0).toString(16).padStart(2, "0")).join("")}`;

function ofPalette(index: number): string | null {
  if (index < 16) return names[index % 8] ?? null;
  // The cube and the greys are made for black screens; our named colours are readable in both themes.
  const near: Record<number, string> = { 28: "green", 22: "green", 34: "green", 160: "red", 124: "red", 196: "red", 21: "blue", 250: "white", 241: "white", 66: "cyan", 100: "yellow", 130: "yellow" };
  if (near[index]) return near[index];
  if (index >= 232) return hex(Array<number>(3).fill(8 + 10 * (index - 232)));
  const cube = index - 16;
  const level = (part: number) => (part === 0 ? 0 : 55 + 40 * part);
  return hex([level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)]);
}
