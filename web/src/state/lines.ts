/** Output as lines, with partial lines, carriage returns and floods. Needs no DOM. */

export type StreamName = "stdout" | "stderr";

export interface Line {
  text: string;
  stream: StreamName;
  /** The escape sequence for the colours in force at the start of this line. */
  style: string;
}

export const MAX_LINES = 200_000;
const MAX_LINE = 20_000; // characters; a longer one is folded into several

const SGR = /\x1b\[([\d;:]*)m/g;

/** The colours in force after a text, as escape sequences. */
function styleAfter(style: string, text: string): string {
  let held = style;
  for (const match of text.matchAll(SGR)) {
    const codes = match[1] ?? "";
    held = codes === "" || codes === "0" ? "" : /^0;/.test(codes) ? match[0] : held + match[0];
  }
  return held.length > 400 ? "" : held;
}

export class Lines {
  readonly all: Line[] = [];
  /** How many lines were dropped at the beginning. */
  dropped = 0;
  /** Counts changes, so that views know when to redraw. */
  version = 0;
  private isOpen = false; // the last line has not ended yet
  private readonly styles: Record<StreamName, string> = { stdout: "", stderr: "" };
  private column = 0; // the next column; a carriage return resets it

  push(stream: StreamName, text: string): void {
    if (!text) return;
    this.version++;
    let start = 0;
    while (start < text.length) {
      const end = text.indexOf("\n", start);
      const piece = end < 0 ? text.slice(start) : text.slice(start, end);
      this.put(stream, piece);
      if (end < 0) return;
      this.isOpen = false;
      this.column = 0;
      start = end + 1;
    }
    this.trim();
  }

  get text(): string {
    return this.all.map((line) => line.text).join("\n");
  }

  get isBlank(): boolean {
    return this.all.every((line) => !line.text.trim());
  }

  /** What comes before these lines of standard output, and what comes after them; null if they are not here. */
  without(lines: string[]): [Lines, Lines] | null {
    if (lines.length === 0) return null;
    const at = this.all.findIndex((_, start) =>
      lines.every((text, offset) => {
        const line = this.all[start + offset];
        return line?.stream === "stdout" && line.text === text;
      }),
    );
    return at < 0 ? null : [this.part(0, at), this.part(at + lines.length, this.all.length)];
  }

  private part(from: number, to: number): Lines {
    const part = new Lines();
    part.all.push(...this.all.slice(from, to));
    part.version = 1;
    return part;
  }

  private put(stream: StreamName, piece: string): void {
    const last = this.all[this.all.length - 1];
    if (!this.isOpen || !last || last.stream !== stream) {
      this.all.push({ text: "", stream, style: this.styles[stream] });
      this.isOpen = true;
      this.column = 0;
    }
    this.write(piece);
  }

  private write(piece: string): void {
    const line = this.all[this.all.length - 1];
    if (!line) return;
    if (piece.includes("\x1b")) this.styles[line.stream] = styleAfter(this.styles[line.stream], piece);
    const parts = piece.split("\r");
    parts.forEach((part, index) => {
      if (index > 0) this.column = 0;
      if (part === "") return;
      if (this.column === 0 && line.text !== "" && (part.includes("\x1b") || part.length >= line.text.length)) line.text = part;
      else if (this.column === line.text.length) line.text += part;
      else line.text = line.text.slice(0, this.column) + part + line.text.slice(this.column + part.length);
      this.column += part.length;
      if (part.includes("\x1b")) this.column = line.text.length;
    });
    if (line.text.length > MAX_LINE) this.fold(line);
  }

  private fold(line: Line): void {
    const { text, stream, style } = line;
    line.text = text.slice(0, MAX_LINE);
    for (let start = MAX_LINE; start < text.length; start += MAX_LINE) {
      this.all.push({ text: text.slice(start, start + MAX_LINE), stream, style });
    }
    this.column = this.all[this.all.length - 1]?.text.length ?? 0;
  }

  private trim(): void {
    if (this.all.length <= MAX_LINES) return;
    const gone = this.all.length - Math.floor(MAX_LINES * 0.9);
    this.all.splice(0, gone);
    this.dropped += gone;
  }
}
