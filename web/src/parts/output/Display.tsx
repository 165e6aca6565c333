import { Suspense, useMemo, useState, type ReactNode } from "react";
import type { DisplayAnswer } from "../../api/schema";
import { Loading } from "../../ui/states";
import { classes } from "../../ui/classes";
import { lazily } from "../../ui/lazily";
import { Frame } from "./Frame";
import { JsonTree } from "./JsonTree";
import { styled } from "./LineView";
import { Picture } from "./Picture";
import { displayed } from "../table/source";
import type { Table } from "../table/table";
import { TableView } from "../table/TableView";

const Chart = lazily(() => import("./Chart"));
const Latex = lazily(() => import("./Latex"));
const Markdown = lazily(() => import("./Markdown"));

interface Form {
  name: string;
  show: () => ReactNode;
}

const asText = (value: unknown): string => (Array.isArray(value) ? value.join("") : typeof value === "string" ? value : JSON.stringify(value));
const data = (value: unknown, mime: string): string => `data:${mime};base64,${asText(value).replace(/\s/g, "")}`;

/** The forms in which a display can be shown, best first. */
function forms(display: DisplayAnswer, number: number, context: string | undefined): Form[] {
  const { mime } = display;
  const found: Form[] = [];
  const chart = mime["application/vnd.cloche.chart+json"] as { title?: string | null; type?: string } | undefined;
  const alt = chart?.title || (chart?.type ? `A ${chart.type} chart` : "A picture that the run displayed");
  const table = mime["application/vnd.cloche.table+json"] as Table | undefined;
  const plot = mime["application/vnd.plotly.v1+json"];
  if (plot) found.push({ name: "Chart", show: () => <Chart library="plotly" spec={plot} /> });
  const vega = Object.entries(mime).find(([kind]) => /^application\/vnd\.vega(lite)?\.v\d+(\+|\.)json$/.test(kind))?.[1];
  if (vega) found.push({ name: "Chart", show: () => <Chart library="vega" spec={vega} /> });
  if (table) found.push({ name: "Table", show: () => <DisplayedTable table={table} context={context} name={`table-${number}`} /> });
  for (const [kind, ending] of [["image/png", "png"], ["image/jpeg", "jpg"], ["image/gif", "gif"], ["image/webp", "webp"]] as const) {
    if (mime[kind]) found.push({ name: "Picture", show: () => <Picture source={data(mime[kind], kind)} name={`chart-${number}.${ending}`} alt={alt} /> });
  }
  const svg = mime["image/svg+xml"];
  if (svg) {
    // As an image, SVG cannot run scripts or load anything.
    const source = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(asText(svg))}`;
    found.push({ name: "Picture", show: () => <Picture source={source} name={`chart-${number}.svg`} alt={alt} /> });
  }
  for (const kind of ["audio/wav", "audio/mpeg", "audio/ogg"]) {
    if (mime[kind]) found.push({ name: "Sound", show: () => <audio controls src={data(mime[kind], kind)} className="m-2 h-9" /> });
  }
  const html = mime["text/html"] ? asText(mime["text/html"]) : "";
  if (html && !plot && !vega) found.push({ name: "HTML", show: () => <Page html={html} /> });
  if (mime["text/markdown"]) found.push({ name: "Markdown", show: () => <Markdown source={asText(mime["text/markdown"])} /> });
  if (mime["text/latex"]) found.push({ name: "Formula", show: () => <Latex source={asText(mime["text/latex"])} /> });
  if (mime["application/json"] !== undefined) found.push({ name: "JSON", show: () => <JsonTree value={mime["application/json"]} /> });
  if (chart) found.push({ name: "Data", show: () => <JsonTree value={chart} /> });
  if (mime["text/plain"]) {
    const isAlone = found.length === 0;
    const text = asText(mime["text/plain"]);
    if (isAlone || !/^<.*>$/.test(text)) found.push({ name: "Text", show: () => <Value text={text} /> });
  }
  return found.length > 0 ? found : [{ name: "Raw", show: () => <JsonTree value={mime} /> }];
}

/** A table, with all its rows as long as the session has them; without a context, those that came with the result. */
function DisplayedTable({ table, context, name }: { table: Table; context: string | undefined; name: string }) {
  const { id } = table;
  const source = useMemo(() => (id && context ? displayed(id, context) : null), [id, context]);
  return <TableView table={table} source={source} name={name} />;
}

/** HTML, with an explanation if it stays empty. */
function Page({ html }: { html: string }) {
  const isFromElsewhere = /<script[^>]+src=["']?https?:|import\(["']https?:|requirejs|src\s*=\s*["']https?:/.test(html);
  return (
    <>
      {isFromElsewhere && (
        <p className="mx-3 my-1.5 text-xs text-ink-faint">
          This wants to load scripts from another host, which nothing under the glass can: parts of it stay empty.
        </p>
      )}
      <Frame html={html} title="What the run displayed" />
    </>
  );
}

function Value({ text }: { text: string }) {
  return <pre className="overflow-x-auto px-3 py-1.5 font-mono text-xs leading-[18px] whitespace-pre">{styled(text.replace(/\n$/, ""), "")}</pre>;
}

/** Something that a run displayed, in its best form; the others are a click away. */
export function Display({ display, number, context }: { display: DisplayAnswer; number: number; context?: string }) {
  const all = forms(display, number, context);
  const [chosen, choose] = useState(0);
  const form = all[chosen] ?? all[0];
  return (
    <div className="group/display relative">
      <Suspense fallback={<Loading label="Loading" />}>{form?.show()}</Suspense>
      {all.length > 1 && (
        <div role="group" aria-label="Shown as" className="flex gap-0.5 px-2.5 pb-1">
          {all.map((one, index) => (
            <button
              key={one.name}
              type="button"
              aria-pressed={index === chosen}
              onClick={() => choose(index)}
              className={classes(
                "rounded px-1.5 py-px text-2xs transition-colors",
                index === chosen ? "bg-sunken text-ink-soft" : "text-ink-faint hover:text-ink",
              )}
            >
              {one.name}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
