import { Check, CircleAlert, CloudOff, Eye, FileCode2, FileText, TriangleAlert } from "lucide-react";
import { Suspense, useEffect } from "react";
import { app } from "../../state/app";
import { keysOf, perform } from "../../state/commands";
import { cursor } from "../../state/cursor";
import { documents, isDirty, MAX_TEXT, retryLoading, save, settle, type Document } from "../../state/documents";
import { bytes } from "../../state/format";
import { languageOf, monacoLanguageOf } from "../../state/languages";
import { useStore } from "../../state/store";
import { nameOf } from "../../state/tree";
import { showAsText, views } from "../../state/views";
import { Button } from "../../ui/Button";
import { classes } from "../../ui/classes";
import { Keys } from "../../ui/Keys";
import { Empty, Failed, Loading, Spinner } from "../../ui/states";
import { lazily } from "../../ui/lazily";
import "./editor.css";
import { RunBar } from "./RunBar";
import { TabBar } from "./TabBar";
import { viewerOf, type Viewer } from "./viewers";
import { Unshown } from "./views/Unshown";

const CodeEditor = lazily(() => import("./CodeEditor"));

/** Tabs, the code, and its state. */
export function EditorPanel() {
  const path = useStore(documents, (state) => state.active);
  const document = useStore(documents, (state) => (state.active === null ? null : (state.byPath[state.active] ?? null)));
  const chosen = useStore(views, (state) => (path === null ? undefined : state.asText[path]));
  const viewer = document ? viewerOf(document.path) : undefined;
  const isReady = document?.phase === "ready";
  const isText = !viewer || (isReady && viewer.hasText && (chosen ?? !opensFirst(viewer, document)));
  // Chosen once: what is typed later must not replace the editor by a view.
  useEffect(() => {
    if (path !== null && isReady && viewer?.hasText && chosen === undefined) showAsText(path, isText);
  }, [path, isReady, viewer, chosen, isText]);
  return (
    <section aria-label="Editor" className="flex h-full min-h-0 flex-col">
      <header className="flex h-9 shrink-0 items-center border-b border-line bg-sunken/60 pr-1.5">
        <TabBar />
        {viewer?.hasText && isReady && <Switch viewer={viewer} path={document.path} isText={isText} />}
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
        ) : viewer && !isText ? (
          <Suspense fallback={<Loading label={`Opening ${nameOf(path)}`} />}>
            <viewer.View key={path} path={path} />
          </Suspense>
        ) : document.phase === "binary" ? (
          <Unshown path={document.path} why={whyBinary(document)} />
        ) : (
          <Suspense fallback={<Loading label="Loading the editor" />}>
            <CodeEditor path={path} />
          </Suspense>
        )}
      </div>
      {document && <StatusBar document={document} isText={isText} />}
    </section>
  );
}

/** Whether a file is shown in its view when it is opened. */
const opensFirst = (viewer: Viewer, document: Document): boolean => viewer.first && (viewer.suits?.(document.saved) ?? true);

/** From a view of a file to its text and back. */
function Switch({ viewer, path, isText }: { viewer: Viewer; path: string; isText: boolean }) {
  return (
    <div role="group" aria-label="Shown as" className="ml-2 flex shrink-0 rounded-md border border-line bg-sunken">
      {[viewer.label, "Text"].map((label, index) => {
        const isPressed = (index === 1) === isText;
        const Icon = index === 1 ? FileText : Eye;
        return (
          <button
            key={index}
            type="button"
            aria-pressed={isPressed}
            onClick={() => showAsText(path, index === 1)}
            className={classes(
              "flex h-6 items-center gap-1 rounded-[5px] px-1.5 text-xs transition-colors",
              isPressed ? "bg-raised text-ink shadow-sm" : "text-ink-soft hover:text-ink",
            )}
          >
            <Icon size={13} aria-hidden="true" />
            <span className="max-md:sr-only">{label}</span>
          </button>
        );
      })}
    </div>
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

/** Why a file is not shown as text. */
function whyBinary({ size }: Document): string {
  if (size > MAX_TEXT) return `It has ${bytes(size)}, and up to ${bytes(MAX_TEXT)} can be edited here. A program can read it, piece by piece.`;
  return `It has ${bytes(size)}, and is neither text nor of a kind that has a view here. A program can read it.`;
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

function StatusBar({ document, isText }: { document: Document; isText: boolean }) {
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
        {isText && `Ln ${line}, Col ${column}`}
      </span>
      {isText && <span>{language?.title ?? monacoLanguageOf(document.path)}</span>}
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
