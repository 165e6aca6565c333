/** Splits text that people type. */

/** Splits a command line into words, with quotes and backslashes as in a shell. */
export function words(text: string): string[] {
  const found: string[] = [];
  for (const match of text.matchAll(/(?:[^\s"'\\]+|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+/g)) {
    found.push(match[0].replace(/\\(.)|"((?:[^"\\]|\\.)*)"|'([^']*)'/g, (_, escaped?: string, double?: string, single?: string) =>
      escaped ?? single ?? (double ?? "").replace(/\\(.)/g, "$1")));
  }
  return found;
}

/** Removes the common indentation, so that a selection within a function can run. */
export function dedented(text: string): string {
  const lines = text.split("\n");
  const indents = lines.filter((line) => line.trim()).map((line) => /^[ \t]*/.exec(line)?.[0].length ?? 0);
  const least = Math.min(...(indents.length > 0 ? indents : [0]));
  return lines.map((line) => line.slice(least)).join("\n");
}
