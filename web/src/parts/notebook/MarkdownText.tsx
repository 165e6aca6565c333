import { Marked, type Token, type Tokens, type TokenizerAndRendererExtension } from "marked";
import { Suspense, useMemo, type ReactNode } from "react";
import { classes } from "../../ui/classes";
import { lazily } from "../../ui/lazily";

const Page = lazily(() => import("../output/Markdown"));
const Formula = lazily(async () => ({ default: (await import("../output/Latex")).Formula }));

const formula = (name: string, level: "block" | "inline", opening: RegExp, pattern: RegExp): TokenizerAndRendererExtension => ({
  name,
  level,
  start: (source) => opening.exec(source)?.index,
  tokenizer(source) {
    const match = pattern.exec(source);
    return match ? { type: name, raw: match[0], text: match[1] ?? match[2] ?? "" } : undefined;
  },
});

const reader = new Marked({
  extensions: [
    formula("display", "block", /\$\$|\\begin\{/, /^(?:\$\$([\s\S]+?)\$\$|(\\begin\{(\w+\*?)\}[\s\S]+?\\end\{\3\}))[ \t]*(?:\n|$)/),
    formula("displayed", "inline", /\$\$/, /^\$\$([\s\S]+?)\$\$/),
    formula("formula", "inline", /\$/, /^\$((?:[^$\n\\]|\\.)+?)\$(?!\d)/),
  ],
});

const MAX_DEPTH = 30;
const PICTURE = /^data:image\/(png|jpeg|gif|webp|svg\+xml)[;,]/;

interface Props {
  source: string;
  /** Addresses of the pictures that a notebook keeps with the cell, by name. */
  attachments: Record<string, string>;
}

/** Markdown as elements of the page: no markup of the text itself reaches it. A text with HTML is shown in the isolated frame. */
export function MarkdownText({ source, attachments }: Props) {
  const tokens = useMemo(() => reader.lexer(source), [source]);
  if (hasHtml(tokens)) {
    return (
      <Suspense fallback={null}>
        <Page source={source} />
      </Suspense>
    );
  }
  return (
    <Suspense fallback={null}>
      <div className="flex flex-col gap-2 px-2.5 py-1.5 text-[0.875rem] leading-6 break-words">{blocks(tokens, attachments)}</div>
    </Suspense>
  );
}

function hasHtml(tokens: Token[], depth = 0): boolean {
  if (depth > MAX_DEPTH) return true;
  return tokens.some((token) => {
    if (token.type === "html") return !/^<!--[\s\S]*-->\s*$/.test(token.raw);
    if (token.type === "list") return (token as Tokens.List).items.some((item) => hasHtml(item.tokens, depth + 1));
    if (token.type === "table") {
      const { header, rows } = token as Tokens.Table;
      return [header, ...rows].flat().some((cell) => hasHtml(cell.tokens, depth + 1));
    }
    return "tokens" in token && token.tokens ? hasHtml(token.tokens, depth + 1) : false;
  });
}

const headings = ["text-xl font-semibold", "text-lg font-semibold", "text-base font-semibold", "font-semibold", "font-semibold", "font-semibold text-ink-soft"];

const blocks = (tokens: Token[], attachments: Props["attachments"]): ReactNode[] => tokens.map((token, index) => <Block key={index} token={token} attachments={attachments} />);

function Block({ token, attachments }: { token: Token; attachments: Props["attachments"] }) {
  const inside = (tokens: Token[] | undefined) => inline(tokens ?? [], attachments);
  switch (token.type) {
    case "heading": {
      const { depth, tokens } = token as Tokens.Heading;
      // The page has headings of its own, so those of a text begin below them.
      const Heading = `h${Math.min(6, depth + 2)}` as "h3";
      return <Heading className={classes("pt-1 leading-snug", headings[depth - 1])}>{inside(tokens)}</Heading>;
    }
    case "code":
      return <pre className="rounded-md bg-sunken px-2.5 py-2 font-mono text-xs leading-5 break-words whitespace-pre-wrap">{(token as Tokens.Code).text}</pre>;
    case "blockquote":
      return <blockquote className="flex flex-col gap-2 border-l-2 border-line-strong pl-3 text-ink-soft">{blocks(token.tokens ?? [], attachments)}</blockquote>;
    case "list":
      return <List list={token as Tokens.List} attachments={attachments} />;
    case "table":
      return <Table table={token as Tokens.Table} attachments={attachments} />;
    case "hr":
      return <hr className="border-line-strong" />;
    case "display":
      return (
        <div className="overflow-x-auto py-1 text-center">
          <Formula text={(token as Tokens.Generic & { text: string }).text} isDisplay />
        </div>
      );
    case "space":
    case "def":
    case "html":
      return null;
    case "paragraph":
    case "text":
      return <p>{"tokens" in token && token.tokens ? inside(token.tokens) : token.raw}</p>;
    default:
      return <p>{token.raw}</p>;
  }
}

function List({ list, attachments }: { list: Tokens.List; attachments: Props["attachments"] }) {
  const items = list.items.map((item, index) => (
    <li key={index} className={classes("pl-0.5", item.task && "list-none")}>
      {item.task && <input type="checkbox" checked={item.checked ?? false} readOnly disabled aria-label={item.checked ? "done" : "not done"} className="mr-1.5" />}
      {item.tokens.map((token, at) =>
        token.type === "text" && "tokens" in token && token.tokens ? <span key={at}>{inline(token.tokens, attachments)}</span> : <Block key={at} token={token} attachments={attachments} />,
      )}
    </li>
  ));
  return list.ordered ? (
    <ol start={list.start || 1} className="list-decimal pl-6">
      {items}
    </ol>
  ) : (
    <ul className="list-disc pl-6">{items}</ul>
  );
}

function Table({ table, attachments }: { table: Tokens.Table; attachments: Props["attachments"] }) {
  const align = (index: number) => ({ textAlign: table.align[index] ?? "left" });
  return (
    <div role="group" aria-label="Table" tabIndex={0} className="overflow-x-auto">
      <table className="border-collapse text-xs">
        <thead>
          <tr>
            {table.header.map((cell, index) => (
              <th key={index} style={align(index)} className="border-b border-line-strong px-2.5 py-1 font-semibold">
                {inline(cell.tokens, attachments)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, at) => (
                <td key={at} style={align(at)} className="border-b border-line px-2.5 py-1">
                  {inline(cell.tokens, attachments)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const inline = (tokens: Token[], attachments: Props["attachments"]): ReactNode[] => tokens.map((token, index) => <Inline key={index} token={token} attachments={attachments} />);

const entities: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&nbsp;": "\u00a0" };
const plainText = (text: string): string => text.replace(/&(?:amp|lt|gt|quot|#39|nbsp);/g, (name) => entities[name] ?? name);

function Inline({ token, attachments }: { token: Token; attachments: Props["attachments"] }) {
  const inside = inline("tokens" in token && token.tokens ? token.tokens : [], attachments);
  switch (token.type) {
    case "strong":
      return <strong className="font-semibold">{inside}</strong>;
    case "em":
      return <em>{inside}</em>;
    case "del":
      return <del>{inside}</del>;
    case "codespan":
      return <code className="rounded bg-sunken px-1 py-px font-mono text-[0.92em]">{(token as Tokens.Codespan).text}</code>;
    case "br":
      return <br />;
    case "link": {
      const { href } = token as Tokens.Link;
      if (!/^(https?:|mailto:)/i.test(href)) return <span className="text-ink-soft">{inside}</span>;
      return (
        <a href={href} target="_blank" rel="noopener noreferrer" className="text-accent underline decoration-accent/40 underline-offset-2 hover:decoration-accent">
          {inside}
        </a>
      );
    }
    case "image":
      return <Attached image={token as Tokens.Image} attachments={attachments} />;
    case "formula":
    case "displayed":
      return <Formula text={(token as Tokens.Generic & { text: string }).text} isDisplay={token.type === "displayed"} />;
    case "escape":
      return (token as Tokens.Escape).text;
    case "html":
      return null;
    default:
      return inside.length > 0 ? inside : plainText("text" in token && typeof token.text === "string" ? token.text : token.raw);
  }
}

/** A picture that the notebook itself contains. The page loads none from elsewhere. */
function Attached({ image: { href, text }, attachments }: { image: Tokens.Image; attachments: Props["attachments"] }) {
  const source = href.startsWith("attachment:") ? attachments[decoded(href.slice("attachment:".length))] : href;
  if (!source || !PICTURE.test(source)) return <span className="text-ink-faint">[picture: {text || href.slice(0, 100)}]</span>;
  return <img src={source} alt={text} className="inline-block max-h-[28rem] max-w-full" />;
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
