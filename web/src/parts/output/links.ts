/** File positions in output: tracebacks, compiler messages. */

export interface Place {
  /** Where in the text the link is. */
  start: number;
  end: number;
  /** Absolute, or relative to the file that was run; null: in the code of the run itself. */
  path: string | null;
  line: number;
  column: number;
}

const PATTERNS: { pattern: RegExp; isCell: boolean }[] = [
  { pattern: /File "((?:\/sandbox|~)\/[^"\n]+)", line (\d+)/g, isCell: false },
  { pattern: /Cell In\[(\d+)\], line (\d+)/g, isCell: true },
  { pattern: /(?:\/tmp\/\.bash-\d+\/)?cell-(\d+): line (\d+)/g, isCell: true },
  { pattern: /\bcell(?:-\d+)?\.(?:m?js|ts)?:?(\d*):(\d+)(?::(\d+))?/g, isCell: true },
  { pattern: /((?:\/sandbox|~)\/[\w./@+-]+\.\w+)(?::(\d+)(?::(\d+))?|: line (\d+))/g, isCell: false },
  { pattern: /(?<![\w/.~:-])([\w-][\w./-]*\.(?:c|h|cc|cpp|hpp|go|rs|java|ts|tsx|js|mjs|py|rb|php|lua|pl|r|jl|kt|sh)):(\d+)(?::(\d+))?/gi, isCell: false },
  { pattern: /(?<=\()([\w-][\w./-]*\.\w{1,5}), line (\d+)(?=\))/g, isCell: false },
];

/** All places in a text, in order, none within another; `ours` is the count of the run's own cell, if it is known. */
export function places(text: string, ours: number | null = null): Place[] {
  const found: Place[] = [];
  for (const { pattern, isCell } of PATTERNS) {
    for (const match of text.matchAll(pattern)) {
      const start = match.index;
      const end = start + match[0].length;
      if (found.some((place) => start < place.end && end > place.start)) continue;
      const line = Number(match[2] ?? match[4] ?? 0);
      if (!line || (isCell && ours !== null && match[1] && Number(match[1]) !== ours)) continue;
      const path = isCell ? null : (match[1] ?? "").replace(/^~/, "/sandbox");
      found.push({ start, end, path, line, column: isCell ? 1 : Number(match[3] ?? 1) || 1 });
    }
  }
  return found.sort((a, b) => a.start - b.start);
}
