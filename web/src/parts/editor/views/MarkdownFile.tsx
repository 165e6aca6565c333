import { marked } from "marked";
import { useMemo } from "react";
import { documents } from "../../../state/documents";
import { useStore } from "../../../state/store";
import { nameOf } from "../../../state/tree";
import { Frame } from "../../output/Frame";

/** A Markdown file as a page, in the frame for foreign HTML, because it may contain any markup. */
export default function MarkdownFile({ path }: { path: string }) {
  const text = useStore(documents, (state) => state.byPath[path]?.text ?? "");
  const html = useMemo(() => marked.parse(text, { async: false }), [text]);
  return (
    <div className="flex h-full flex-col">
      <Frame html={html} title={nameOf(path)} fills />
    </div>
  );
}
