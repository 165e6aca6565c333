/** Simple syntax colours: comments, strings, numbers and the keywords that most languages share. */

export interface Span {
  text: string;
  kind: "plain" | "comment" | "string" | "number" | "keyword";
}

const keywords =
  "and as assert async await break case catch class const continue def default del do done elif else enum except export extends extern false finally " +
  "fi fn for from func function go if impl import in interface is lambda let loop match mod mut new nil none not null or package pass pub raise return " +
  "self static struct super switch then this throw true try type typeof union use var void when where while with yield";
const isKeyword = new Set(keywords.split(" "));
const hashed = /\.(py|sh|bash|rb|r|pl|toml|ya?ml|jl|tcl|mk)$|Makefile$/i;
const dashed = /\.(sql|lua)$/i;

/** Splits a text into coloured spans; the file name says which language it is. */
export function paint(path: string, text: string): Span[] {
  const comment = hashed.test(path) ? "#[^\\n]*" : dashed.test(path) ? "--[^\\n]*" : "\\/\\/[^\\n]*|\\/\\*[\\s\\S]*?\\*\\/";
  const pattern = new RegExp(
    `(${comment})|("""[\\s\\S]*?"""|'''[\\s\\S]*?'''|"(?:[^"\\\\\\n]|\\\\.)*"|'(?:[^'\\\\\\n]|\\\\.)*'|\`(?:[^\`\\\\]|\\\\.)*\`)|(\\b\\d[\\w.]*\\b)|([A-Za-z_]\\w*)`,
    "g",
  );
  const spans: Span[] = [];
  let at = 0;
  const push = (kind: Span["kind"], piece: string) => {
    const last = spans.at(-1);
    if (last?.kind === kind) last.text += piece;
    else if (piece) spans.push({ kind, text: piece });
  };
  for (const match of text.matchAll(pattern)) {
    push("plain", text.slice(at, match.index));
    const [whole, note, quoted, number, word] = match;
    const kind = note ? "comment" : quoted ? "string" : number ? "number" : word && isKeyword.has(word.toLowerCase()) ? "keyword" : "plain";
    push(kind, whole);
    at = match.index + whole.length;
  }
  push("plain", text.slice(at));
  return spans;
}
