import plotly from "plotly.js-cartesian-dist-min/plotly-cartesian.min.js?url";
import { useEffect, useState } from "react";
import vega from "../../../.monaco/vega.js?url";
import { request } from "../../api/http";
import { app } from "../../state/app";
import { useStore } from "../../state/store";
import { Failed, Loading } from "../../ui/states";
import { Frame } from "./Frame";

export type Library = "plotly" | "vega";

const libraries = new Map<Library, Promise<string>>();

/** A library's source: the frame has no network, so the page brings it. */
function sourceOf(library: Library): Promise<string> {
  const known = libraries.get(library);
  if (known) return known;
  const loading = request(library === "plotly" ? plotly : vega)
    .then((response) => response.text())
    .then((text) => text.replaceAll("</script", "<\\/script"));
  libraries.set(library, loading);
  loading.catch(() => libraries.delete(library));
  return loading;
}

// Within a script, nothing in the data may end it.
const literal = (value: unknown): string => JSON.stringify(value).replaceAll("<", "\\u003c");

const drawn: Record<Library, (spec: unknown, dark: boolean) => string> = {
  plotly: (spec, dark) => `
    const spec = ${literal(spec)};
    const plain = { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: "${dark ? "#e7ebe8" : "#1c211e"}" } };
    const layout = { autosize: true, height: 380, margin: { t: 48, r: 16, b: 48, l: 56 }, ...(${dark} ? { ...spec.layout, ...plain } : spec.layout) };
    if (${dark}) {
      for (const name of new Set(["xaxis", "yaxis", ...Object.keys(layout).filter((one) => /^[xy]axis/.test(one))])) {
        layout[name] = { ...layout[name], gridcolor: "#2b332e", zerolinecolor: "#3a453f", linecolor: "#3a453f" };
      }
    }
    Plotly.newPlot("chart", spec.data, layout, { responsive: true, displaylogo: false });`,
  vega: (spec, dark) => `
    vegaEmbed("#chart", ${literal(spec)}, { actions: false, ${dark ? 'theme: "dark", ' : ""}config: { background: "transparent", axis: { gridColor: "${dark ? "#2b332e" : "#e2ddd0"}" } } });`,
};

/** A Plotly or Vega (Altair) chart, drawn in the frame for foreign HTML. */
export default function Chart({ library, spec }: { library: Library; spec: unknown }) {
  const dark = useStore(app, (state) => state.dark);
  const [source, setSource] = useState("");
  const [problem, setProblem] = useState<unknown>(null);
  useEffect(() => {
    sourceOf(library).then(setSource, setProblem);
  }, [library]);
  if (problem) return <Failed problem={problem} />;
  if (!source) {
    return (
      <div className="h-40">
        <Loading label="Loading the chart" />
      </div>
    );
  }
  const html = `<div id="chart" style="width:100%"></div><script>${source}</script><script>${drawn[library](spec, dark)}</script>`;
  return <Frame html={html} title="A chart that the run displayed" hasOwnScripts />;
}
