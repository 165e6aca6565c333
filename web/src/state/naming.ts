/** Finds a name for a sandbox in the code of its first run. */

const LONGEST = 40;
const COMMENT = /^\s*(?:#(?!!)|\/\/|--|%|;)+\s*(?:%%\s*)?(.*)$/;
const TITLE = /(?:suptitle|set_title|\.title|ggtitle|(?:\b|_)title\s*=)\s*\(?\s*(["'`])((?:(?!\1).){3,80})\1/;
const DEFINED = /^\s*(?:export\s+|async\s+|public\s+|static\s+|pub\s+)*(?:def|class|function|func|fn|struct|interface|type)\s+([A-Za-z_]\w{2,})/;
const PYTHON_IMPORT = /^\s*(?:from\s+([A-Za-z_]\w*)|import\s+([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*))/;
const QUOTED = /(["'`])((?:(?!\1).){3,80})\1/;
/** Comments that speak to tools or editors, and not to people. */
const FOR_TOOLS = /^(?:-\*-|coding[:=]|type:|noqa|pylint|eslint|ruff|mypy|@ts-|!|copyright|spdx|todo|fixme)/i;
const NOT_A_SUBJECT = new Set(["os", "sys", "re", "math", "json", "time", "random", "pathlib", "typing", "collections", "itertools", "functools", "datetime", "future", "__future__"]);

/** A short name for what the code does: a comment, a chart's title, a definition, a library or its first line. */
export function nameFor(code: string): string {
  const lines = code.slice(0, 20_000).split("\n").slice(0, 400);
  return (
    [comment(lines), docstring(code.slice(0, 2000)), TITLE.exec(code.slice(0, 20_000))?.[2], defined(lines), imported(lines), printed(lines), first(lines)]
      .map((found) => shortened(found ?? ""))
      .find((name) => name.length >= 3) ?? ""
  );
}

/** The first comment, if it stands before any code but imports. */
function comment(lines: string[]): string {
  for (const line of lines) {
    if (!line.trim() || PYTHON_IMPORT.test(line) || line.startsWith("#!")) continue;
    const words = COMMENT.exec(line)?.[1]?.trim() ?? null;
    if (words === null) return "";
    if (/\p{L}{2}/u.test(words) && !FOR_TOOLS.test(words)) return words;
  }
  return "";
}

const docstring = (code: string): string => /^\s*(?:"""|'''|\/\*\*?)\s*([^\n*"']{3,})/.exec(code)?.[1] ?? "";

function defined(lines: string[]): string {
  const name = lines.map((line) => DEFINED.exec(line)?.[1]).find((found) => found !== undefined && found !== "main");
  return spaced(name ?? "");
}

function imported(lines: string[]): string {
  const names = lines.flatMap((line) => {
    const found = PYTHON_IMPORT.exec(line);
    return (found?.[1] ?? found?.[2] ?? "").split(",").map((name) => name.trim());
  });
  return [...new Set(names)].filter((name) => name && !NOT_A_SUBJECT.has(name)).slice(0, 2).join(" and ");
}

/** What a program of one line prints, or greets with. */
const printed = (lines: string[]): string => {
  const written = lines.filter((line) => line.trim());
  return written.length === 1 ? (QUOTED.exec(written[0] ?? "")?.[2] ?? "") : "";
};

const first = (lines: string[]): string => lines.find((line) => /\p{L}/u.test(line)) ?? "";

/** `weekly_total` and `weeklyTotal` as words. */
const spaced = (name: string): string => name.replace(/_+/g, " ").replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase();

function shortened(text: string): string {
  const words = text
    .replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, " ")
    .replace(/\s+/g, " ")
    .replace(/^[\s#*=\-–—:%]+|[\s#*=\-–—:;,.{(]+$/gu, "")
    .trim();
  const letters = [...words];
  const whole = letters.length <= LONGEST ? words : `${letters.slice(0, LONGEST).join("").replace(/\s+\S*$/, "")}…`;
  return whole.charAt(0).toUpperCase() + whole.slice(1);
}
