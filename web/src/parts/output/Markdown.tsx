import { marked } from "marked";
import { useMemo } from "react";
import { Frame } from "./Frame";

/** Markdown in the frame for foreign HTML, because it may contain any markup. */
export default function Markdown({ source }: { source: string }) {
  const html = useMemo(() => marked.parse(source, { async: false }), [source]);
  return <Frame html={html} title="Markdown" />;
}
