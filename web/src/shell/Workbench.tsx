import { Activity, Code2, Files, Globe, History, LayoutGrid, Package, SquareTerminal, TextQuote, Variable } from "lucide-react";
import { Suspense, useEffect, useState, useSyncExternalStore, type ReactNode } from "react";
import { Panel, PanelGroup, PanelResizeHandle } from "react-resizable-panels";
import { app, isDark, phone, setTheme, toggleSide, toggleTerminal, type SidePart, type View } from "../state/app";
import { keysOf, offer } from "../state/commands";
import { canBecomeNotebook, exportAsNotebook } from "../state/conversions";
import { active, closeFile, save } from "../state/documents";
import { restart, run, stopRuns, isRunning } from "../state/running";
import { clearRuns, lostRuns } from "../state/runs";
import { idInAddress, nameOf, open, openAgain, sandbox } from "../state/sandbox";
import { openSharing } from "../state/sharing";
import { useStore } from "../state/store";
import { addTerminal } from "../state/terminals";
import { attempt, note } from "../state/toasts";
import { Button, IconButton } from "../ui/Button";
import { classes } from "../ui/classes";
import { Empty, Failed, Loading } from "../ui/states";
import { lazily } from "../ui/lazily";
import { EditorPanel } from "../parts/editor/EditorPanel";
import { useRunning } from "../parts/editor/RunBar";
import { FilesPanel } from "../parts/files/FilesPanel";
import { NetworkPanel } from "../parts/network/NetworkPanel";
import { PackagesPanel } from "../parts/packages/PackagesPanel";
import { ResultsPanel } from "../parts/previews/ResultsPanel";
import { SessionsPanel } from "../parts/sessions/SessionsPanel";
import { ShareDialog } from "../parts/share/ShareDialog";
import { TimelineEverywhere, TimelinePanel } from "../parts/timeline/TimelinePanel";
import { VariablesPanel } from "../parts/variables/VariablesPanel";
import { WatchPanel } from "../parts/watch/WatchPanel";
import { Limits } from "./Limits";
import { Palette } from "./Palette";
import { TopBar } from "./TopBar";

const TerminalPanel = lazily(() => import("../parts/terminal/TerminalPanel"));

const parts: { part: SidePart; label: string; icon: ReactNode; keys: string }[] = [
  { part: "files", label: "Files", icon: <Files size={17} />, keys: "mod+shift+e" },
  { part: "variables", label: "Variables", icon: <Variable size={17} />, keys: "alt+v" },
  { part: "timeline", label: "Timeline", icon: <History size={17} />, keys: "mod+shift+h" },
  { part: "watch", label: "Watch", icon: <Activity size={17} />, keys: "mod+shift+u" },
  { part: "packages", label: "Packages", icon: <Package size={17} />, keys: "alt+p" },
  { part: "network", label: "Network", icon: <Globe size={17} />, keys: "alt+r" },
  { part: "sessions", label: "Sessions", icon: <LayoutGrid size={17} />, keys: "mod+shift+o" },
];

const usePhone = (): boolean =>
  useSyncExternalStore(
    (listener) => {
      phone.addEventListener("change", listener);
      return () => phone.removeEventListener("change", listener);
    },
    () => phone.matches,
  );

/** The view of one sandbox. */
export function Workbench() {
  const phase = useStore(sandbox, (state) => state.phase);
  const problem = useStore(sandbox, (state) => state.problem);
  const onPhone = usePhone();
  const isBusy = useRunning();
  const name = useStore(sandbox, (state) => (state.record ? nameOf(state.record) : ""));
  useCommands();
  useEffect(() => {
    document.title = `${isBusy ? "● " : ""}${name ? `${name} · ` : ""}Cloche`;
    return () => void (document.title = "Cloche");
  }, [name, isBusy]);
  return (
    <div className="flex h-full flex-col">
      <TopBar />
      <Offline />
      {phase === "ended" && <Ended />}
      {phase === "opening" || phase === "none" ? (
        <Loading label="Opening the sandbox" />
      ) : phase === "failed" ? (
        <Empty title="">
          <Failed problem={problem} {...retrying()} />
          <Button className="mt-3" onClick={() => (location.hash = "")}>
            To the beginning
          </Button>
        </Empty>
      ) : phase === "ended" ? null : onPhone ? (
        <OnPhone />
      ) : (
        <OnDesk />
      )}
      <Palette />
      <Limits />
      <TimelineEverywhere />
      <ShareDialog />
    </div>
  );
}

/** What could not be opened is tried again by its address; a new sandbox has none yet. */
function retrying(): { retry?: () => void } {
  const id = idInAddress();
  return id ? { retry: () => void open(id) } : {};
}

function Side() {
  const side = useStore(app, (state) => state.side) ?? "files";
  switch (side) {
    case "files":
      return <FilesPanel />;
    case "variables":
      return <VariablesPanel />;
    case "timeline":
      return <TimelinePanel />;
    case "watch":
      return <WatchPanel />;
    case "packages":
      return <PackagesPanel />;
    case "network":
      return <NetworkPanel />;
    case "sessions":
      return <SessionsPanel />;
  }
}

function Bar({ vertical = false }: { vertical?: boolean }) {
  return (
    <PanelResizeHandle
      className={classes(
        "group/bar flex items-center justify-center outline-offset-[-1px]",
        vertical ? "h-1.5 cursor-row-resize" : "w-1.5 cursor-col-resize",
      )}
      aria-label="Resize"
    >
      <span
        className={classes(
          "rounded-full bg-transparent transition-colors group-hover/bar:bg-line-strong group-data-[resize-handle-state=drag]/bar:bg-accent",
          vertical ? "h-0.5 w-10" : "h-10 w-0.5",
        )}
      />
    </PanelResizeHandle>
  );
}

function OnDesk() {
  const side = useStore(app, (state) => state.side);
  const terminal = useStore(app, (state) => state.terminal);
  return (
    <div className="flex min-h-0 flex-1 px-1.5 pb-1.5">
      <nav aria-label="Parts" className="flex w-10 shrink-0 flex-col items-center gap-1 pt-1 pr-1.5">
        {parts.map(({ part, label, icon, keys }) => (
          <IconButton key={part} label={label} keys={keys} side="right" pressed={side === part} onClick={() => toggleSide(part)} className="size-8.5">
            {icon}
          </IconButton>
        ))}
        <IconButton
          label="Terminal"
          keys={keysOf("terminal")}
          side="right"
          pressed={terminal}
          onClick={() => toggleTerminal()}
          className="mt-auto size-8.5"
        >
          <SquareTerminal size={17} />
        </IconButton>
      </nav>
      <PanelGroup tagName="main" direction="horizontal" autoSaveId="cloche.columns" className="min-w-0 flex-1">
        {side !== null && (
          <>
            <Panel id="side" order={1} defaultSize={18} minSize={12} maxSize={40} className="pane">
              <Side />
            </Panel>
            <Bar />
          </>
        )}
        <Panel id="work" order={2} minSize={40}>
          <PanelGroup direction="vertical" autoSaveId="cloche.rows">
            <Panel id="upper" order={1} minSize={25}>
              <PanelGroup direction="horizontal" autoSaveId="cloche.work">
                <Panel id="editor" order={1} defaultSize={56} minSize={25} className="pane">
                  <EditorPanel />
                </Panel>
                <Bar />
                <Panel id="output" order={2} defaultSize={44} minSize={20} className="pane">
                  <ResultsPanel />
                </Panel>
              </PanelGroup>
            </Panel>
            {terminal && (
              <>
                <Bar vertical />
                <Panel id="terminal" order={2} defaultSize={32} minSize={12} className="pane">
                  <Suspense fallback={<Loading label="Loading the terminal" />}>
                    <TerminalPanel />
                  </Suspense>
                </Panel>
              </>
            )}
          </PanelGroup>
        </Panel>
      </PanelGroup>
    </div>
  );
}

const views: { view: View; label: string; icon: ReactNode }[] = [
  { view: "side", label: "Files", icon: <Files size={19} /> },
  { view: "code", label: "Code", icon: <Code2 size={19} /> },
  { view: "output", label: "Output", icon: <TextQuote size={19} /> },
  { view: "terminal", label: "Terminal", icon: <SquareTerminal size={19} /> },
];

function OnPhone() {
  const view = useStore(app, (state) => state.view);
  const side = useStore(app, (state) => state.side);
  return (
    <>
      <main className="min-h-0 flex-1 px-1.5 pb-1.5">
        <div className={classes("pane h-full", view !== "side" && "hidden")}>
          <div className="flex h-full flex-col">
            <div role="tablist" aria-label="Parts" className="flex gap-1 border-b border-line p-1.5">
              {parts.map(({ part, label, icon }) => (
                <button
                  key={part}
                  type="button"
                  role="tab"
                  aria-selected={(side ?? "files") === part}
                  onClick={() => app.set({ side: part })}
                  className={classes(
                    "flex flex-1 items-center justify-center gap-1.5 rounded-md py-1.5 text-xs",
                    (side ?? "files") === part ? "bg-accent-soft text-accent" : "text-ink-soft",
                  )}
                >
                  {icon}
                  <span className="max-[640px]:sr-only">{label}</span>
                </button>
              ))}
            </div>
            <div className="min-h-0 flex-1">
              <Side />
            </div>
          </div>
        </div>
        <div className={classes("pane h-full", view !== "code" && "hidden")}>
          <EditorPanel />
        </div>
        <div className={classes("pane h-full", view !== "output" && "hidden")}>
          <ResultsPanel />
        </div>
        {view === "terminal" && (
          <div className="pane h-full">
            <Suspense fallback={<Loading label="Loading the terminal" />}>
              <TerminalPanel />
            </Suspense>
          </div>
        )}
      </main>
      <nav aria-label="Views" className="grid shrink-0 grid-cols-4 border-t border-line bg-surface pb-[env(safe-area-inset-bottom)]">
        {views.map((one) => (
          <button
            key={one.view}
            type="button"
            aria-current={view === one.view ? "page" : undefined}
            onClick={() => app.set({ view: one.view, ...(one.view === "side" ? { side: side ?? "files" } : {}) })}
            className={classes("flex h-13 flex-col items-center justify-center gap-0.5 text-2xs", view === one.view ? "text-accent" : "text-ink-soft")}
          >
            {one.icon}
            {one.label}
          </button>
        ))}
      </nav>
    </>
  );
}

function Offline() {
  const online = useStore(app, (state) => state.online);
  const connected = useStore(sandbox, (state) => state.connected || state.phase !== "open");
  if (online && connected) return null;
  return (
    <p role="status" className="mx-1.5 mb-1.5 rounded-lg bg-warn-soft px-3 py-1.5 text-xs text-warn">
      {online
        ? "Reconnecting to the sandbox. You can keep typing."
        : "The server cannot be reached. You can keep typing: your changes stay in this browser and are saved when the server is back."}
    </p>
  );
}

function Ended() {
  const record = useStore(sandbox, (state) => state.record);
  const [lost, setLost] = useState<string[]>([]);
  useEffect(() => {
    if (record) void lostRuns(record).then(setLost, () => undefined); // without the list, the reason is still shown
  }, [record?.id]);
  return (
    <div className="min-h-0 flex-1">
      <Empty title="This sandbox has ended">
        <p role="status">
          {record?.reason ? `Reason: ${record.reason.replace(/^[A-Z]/, (letter) => letter.toLowerCase())}. ` : ""}
          {record?.persistent ? "Its files are kept, its variables are lost." : "Only the copies in this browser are left."}
        </p>
        {lost.length > 0 && (
          <p role="status" className="mt-2 text-warn">
            {lost.length === 1 ? `The run ${lost[0]} was lost. Run it again.` : `${lost.length} runs were lost: ${lost.join(", ")}. Run them again.`}
          </p>
        )}
        <div className="mt-4 flex justify-center gap-2">
          <Button look="primary" onClick={() => attempt(openAgain)}>
            {record?.persistent ? "Reopen its files" : "New sandbox"}
          </Button>
          <Button onClick={() => (location.hash = "")}>Start page</Button>
        </div>
      </Empty>
    </div>
  );
}

/** The commands of a sandbox. */
function useCommands(): void {
  useEffect(() => {
    const isOpen = () => sandbox.get().phase === "open";
    const closeActive = () => {
      const document = active();
      if (document) attempt(() => closeFile(document.path));
    };
    return offer(
      { id: "run", title: "Run the selection, the cell or the file", group: "Run", keys: "mod+enter", run: () => run("here"), when: isOpen },
      { id: "run.next", title: "Run the cell and move to the next", group: "Run", keys: "shift+enter", run: () => run("next"), when: () => isOpen() && isInEditor() },
      { id: "run.file", title: "Run the whole file", group: "Run", keys: "mod+shift+enter", run: () => run("file"), when: isOpen },
      { id: "stop", title: "Stop all runs", group: "Run", keys: "mod+shift+.", run: stopRuns, when: isRunning },
      { id: "restart", title: "Restart the session", group: "Run", run: restart, when: isOpen },
      { id: "inspector", title: "Run options: input, arguments, environment, limits", group: "Run", keys: "alt+i", run: () => app.set(({ inspector }) => ({ inspector: !inspector })), when: isOpen },
      { id: "limits", title: "Limits of this sandbox", group: "Run", run: () => app.set({ limits: true }), when: isOpen },
      { id: "clear", title: "Clear the output", group: "Run", run: clearRuns, when: isOpen },
      { id: "palette", title: "Show all commands", group: "Page", keys: "mod+shift+p", run: () => app.set({ palette: true }) },
      { id: "palette.f1", title: "Show all commands (F1)", group: "Page", keys: "f1", run: () => app.set({ palette: true }) },
      { id: "terminal", title: "Show or hide the terminal", group: "Page", keys: "mod+backquote", run: () => toggleTerminal(), when: isOpen },
      { id: "terminal.new", title: "New terminal", group: "Page", keys: "mod+shift+backquote", run: () => (toggleTerminal(true), void addTerminal()), when: isOpen },
      { id: "share", title: "Share a snapshot", group: "Page", run: openSharing, when: isOpen },
      { id: "keys", title: "Keys and usage", group: "Page", run: () => (location.hash = "#/keys") },
      { id: "theme", title: "Switch between light and dark", group: "Page", run: () => setTheme(isDark() ? "light" : "dark") },
      {
        id: "save",
        title: "Save now",
        group: "Files",
        keys: "mod+s",
        run: () => {
          const document = active();
          if (document) attempt(async () => (await save(document.path), note("Saved", "Files are also saved automatically.")));
        },
      },
      { id: "notebook", title: "Save this script as a notebook", group: "Files", run: exportAsNotebook, when: () => isOpen() && canBecomeNotebook() },
      { id: "close", title: "Close this file", group: "Files", keys: "alt+w", run: closeActive, when: isOpen },
      ...parts.map(({ part, label, keys }) => ({ id: `side.${part}`, title: `Show ${label.toLowerCase()}`, group: "Page", keys, run: () => toggleSide(part), when: isOpen })),
    );
  }, []);
}

const isInEditor = (): boolean => document.activeElement?.closest("[data-testid=editor]") != null;
