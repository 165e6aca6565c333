import { Check, CircleAlert, CloudOff, FileCode2, FileQuestion, TriangleAlert } from "lucide-react";
import { lazy, Suspense } from "react";
import * as api from "../../api/cloche";
import { app } from "../../state/app";
import { keysOf, perform } from "../../state/commands";
import { cursor } from "../../state/cursor";
import { documents, isDirty, retryLoading, save, settle, type Document } from "../../state/documents";
import { bytes } from "../../state/format";
import { languageOf, monacoLanguageOf } from "../../state/languages";
import { plain } from "../../state/names";
import { theSandbox } from "../../state/sandbox";
import { useStore } from "../../state/store";
import { baseOf, nameOf } from "../../state/tree";
import { Button } from "../../ui/Button";
import { Keys } from "../../ui/Keys";
import { Empty, Failed, Loading, Spinner } from "../../ui/states";
import "./editor.css";
import { RunBar } from "./RunBar";
import { TabBar } from "./TabBar";

const CodeEditor = lazy(() => import("./CodeEditor"));

/** Tabs, the code, and its state. */
export function EditorPanel() {
  const path = useStore(documents, (state) => state.active);
  const document = useStore(documents, (state) => (state.active === null ? null : (state.byPath[state.active] ?? null)));
  return (
    <section aria-label="Editor" className="flex h-full min-h-0 flex-col">
      <header className="flex h-9 shrink-0 items-center border-b border-line bg-sunken/60 pr-1.5">
        <TabBar />
        <RunBar />
      </header>
      {document && <Notices document={document} />}
      <div className="relative min-h-0 flex-1">
        {path === null || !document ? (
          <Nothing />
        ) : document.phase === "loading" ? (
          <Loading label={`Opening ${nameOf(path)}`} />
        ) : document.phase === "failed" ? (
          <Failed problem={new Error(document.problem)} retry={() => retryLoading(path)} />
        ) : document.phase === "binary" ? (
          <Binary document={document} />
        ) : (
          <Suspense fallback={<Loading label="Loading the editor" />}>
            <CodeEditor path={path} />
          </Suspense>
        )}
      </div>
      {document && <StatusBar document={document} />}
    </section>
  );
}

function Nothing() {
  return (
    <Empty icon={<FileCode2 size={24} />} title="No file is open">
      Choose a file on the left, or create one: <Keys keys={keysOf("files.new") ?? "alt+n"} />. All commands are in
      the palette: <Keys keys={keysOf("palette") ?? "mod+shift+p"} />.
      <div className="mt-3">
        <Button onClick={() => perform("files.new")}>New file</Button>
      </div>
    </Empty>
  );
}

function Binary({ document }: { document: Document }) {
  return (
    <Empty icon={<FileQuestion size={24} />} title={`${nameOf(document.path)} is not text`}>
      {bytes(document.size)}.{" "}
      <a className="text-accent hover:underline" download={plain(baseOf(document.path))} href={api.fileAddress(theSandbox(), document.path)}>
        Download it
      </a>
    </Empty>
  );
}

/** Conflicts that keep a file from being saved. */
function Notices({ document }: { document: Document }) {
  if (document.theirs !== null) {
    return (
      <div role="alert" className="flex flex-wrap items-center gap-2 border-b border-line bg-warn-soft px-3 py-1.5 text-xs">
        <TriangleAlert size={14} className="text-warn" aria-hidden="true" />
        <span className="flex-1">Someone else changed this file while you were editing it.</span>
        <Button size="small" onClick={() => settle(document.path, "ours")}>
          Keep mine
        </Button>
        <Button size="small" onClick={() => settle(document.path, "theirs")}>
          Take theirs
        </Button>
      </div>
    );
  }
  if (document.removed) {
    return (
      <div role="alert" className="flex items-center gap-2 border-b border-line bg-warn-soft px-3 py-1.5 text-xs">
        <TriangleAlert size={14} className="text-warn" aria-hidden="true" />
        <span className="flex-1">This file was deleted from the sandbox. This browser still has your copy.</span>
        <Button size="small" onClick={() => void save(document.path)}>
          Restore it
        </Button>
      </div>
    );
  }
  return null;
}

function StatusBar({ document }: { document: Document }) {
  const { line, column, problems } = useStore(cursor, (state) => state);
  const language = languageOf(document.path);
  return (
    <footer className="flex h-6 shrink-0 items-center gap-3 border-t border-line px-3 text-2xs text-ink-faint">
      <SavedState document={document} />
      {problems.errors > 0 && (
        <button type="button" onClick={() => perform("editor:editor.action.marker.nextInFiles")} className="flex items-center gap-1 text-danger hover:underline">
          <CircleAlert size={11} /> {problems.errors} {problems.errors === 1 ? "error" : "errors"}
        </button>
      )}
      {problems.warnings > 0 && (
        <button type="button" onClick={() => perform("editor:editor.action.marker.nextInFiles")} className="flex items-center gap-1 text-warn hover:underline">
          <TriangleAlert size={11} /> {problems.warnings}
        </button>
      )}
      <span className="ml-auto tabular-nums">
        Ln {line}, Col {column}
      </span>
      <span>{language?.title ?? monacoLanguageOf(document.path)}</span>
    </footer>
  );
}

/** Shows whether the file is saved. */
export function SavedState({ document }: { document: Document }) {
  const online = useStore(app, (state) => state.online);
  const dirty = isDirty(document);
  if (document.saving === "failed") {
    return (
      <span role="status" className="flex items-center gap-1 text-warn" title={document.problem}>
        <CloudOff size={11} /> {online ? "Not saved" : "Offline"}: kept in this browser
      </span>
    );
  }
  if (document.saving === "saving" || dirty) {
    return (
      <span role="status" className="flex items-center gap-1">
        <Spinner size={11} /> Saving
      </span>
    );
  }
  return (
    <span role="status" className="flex items-center gap-1">
      <Check size={11} className="text-accent" /> Saved
    </span>
  );
}
