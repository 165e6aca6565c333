import katex from "katex";
import "katex/dist/katex.min.css";

const MATH = /\$\$([\s\S]+?)\$\$|\$([^$\n]+?)\$|\\\[([\s\S]+?)\\\]|\\\(([\s\S]+?)\\\)|(\\begin\{[\s\S]+\\end\{\w+\*?\})/g;

/** Formulas. KaTeX creates its own markup and accepts none. */
export default function Latex({ source }: { source: string }) {
  const pieces: { text: string; isMath: boolean; isDisplay: boolean }[] = [];
  let start = 0;
  for (const match of source.matchAll(MATH)) {
    if (match.index > start) pieces.push({ text: source.slice(start, match.index), isMath: false, isDisplay: false });
    const text = match[1] ?? match[2] ?? match[3] ?? match[4] ?? match[5] ?? "";
    pieces.push({ text, isMath: true, isDisplay: match[2] === undefined && match[4] === undefined });
    start = match.index + match[0].length;
  }
  if (start < source.length) pieces.push({ text: source.slice(start), isMath: start === 0, isDisplay: true });
  return (
    <div className="overflow-x-auto px-3 py-2 text-[1.05rem]">
      {pieces.map((piece, index) =>
        piece.isMath ? (
          <Formula key={index} text={piece.text} isDisplay={piece.isDisplay} />
        ) : (
          <span key={index}>{piece.text}</span>
        ),
      )}
    </div>
  );
}

export const Formula = ({ text, isDisplay }: { text: string; isDisplay: boolean }) => (
  <span dangerouslySetInnerHTML={{ __html: markup(text, isDisplay) }} />
);

const markup = (formula: string, displayMode: boolean): string =>
  katex.renderToString(formula, { displayMode, throwOnError: false, trust: false, maxSize: 50, maxExpand: 500 });
