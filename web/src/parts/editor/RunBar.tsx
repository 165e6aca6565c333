import { ChevronDown, Play, RotateCcw, SlidersHorizontal, Square } from "lucide-react";
import { useEffect, useReducer } from "react";
import { app } from "../../state/app";
import { keysOf } from "../../state/commands";
import { documents } from "../../state/documents";
import { inspector } from "../../state/inspector";
import { languageOf, titleOf } from "../../state/languages";
import { kindOf, restart, run, stopRuns } from "../../state/running";
import { runs } from "../../state/runs";
import { useStore } from "../../state/store";
import { Button, Hint, IconButton } from "../../ui/Button";
import { Menu } from "../../ui/Menu";
import { Inspector } from "./Inspector";

/** Is anything running? */
export function useRunning(): boolean {
  const all = useStore(runs, (state) => state.all);
  const [, again] = useReducer((count: number) => count + 1, 0);
  const active = all.filter((one) => !one.isOver);
  useEffect(() => {
    const stops = active.map((one) => one.changed.on(again));
    return () => stops.forEach((stop) => stop());
  }, [active.map((one) => one.key).join()]);
  return active.length > 0;
}

/** Language, run, stop, restart, and how to run. */
export function RunBar() {
  const path = useStore(documents, (state) => state.active);
  const isReady = useStore(documents, (state) => state.active !== null && state.byPath[state.active]?.phase === "ready");
  const { language } = useStore(inspector, (state) => state);
  const offered = useStore(app, (state) => state.languages);
  const isOpen = useStore(app, (state) => state.inspector);
  const isBusy = useRunning();
  const own = path ? languageOf(path)?.name : undefined;
  const spoken = language ?? own ?? "python";
  return (
    <div className="flex items-center gap-1 pl-2">
      <Menu
        align="end"
        trigger={
          <button type="button" aria-label={`Language: ${titleOf(spoken)}`} className="flex h-7 items-center gap-1 rounded-md px-1.5 text-xs text-ink-soft hover:bg-hover hover:text-ink max-md:hidden">
            {titleOf(spoken)}
            <ChevronDown size={12} />
          </button>
        }
        entries={[
          "Run as",
          ...offered.map((one) => ({
            label: one.title,
            note: one.version ?? (one.state === "installable" ? "not installed" : "not here"),
            checked: one.name === spoken,
            disabled: one.state === "unavailable",
            onSelect: () => inspector.set({ language: one.name === own ? null : one.name }),
          })),
        ]}
      />
      {isBusy ? (
        <Hint label="Stop all runs" keys={keysOf("stop")}>
          <Button look="danger" size="small" className="h-7 px-2.5" icon={<Square size={11} fill="currentColor" />} onClick={stopRuns}>
            Stop
          </Button>
        </Hint>
      ) : (
        <Hint label={kindOf(spoken) === "program" ? "Run the file as a program" : "Run the selection, the cell or the file"} keys={keysOf("run")}>
          <Button look="primary" size="small" className="h-7 px-2.5" disabled={!isReady} icon={<Play size={11} fill="currentColor" />} onClick={() => run("here")}>
            Run
          </Button>
        </Hint>
      )}
      <IconButton label="Restart the session: variables are lost, files stay" keys={keysOf("restart")} onClick={restart}>
        <RotateCcw size={14} />
      </IconButton>
      <Inspector open={isOpen} onOpen={(open) => app.set({ inspector: open })}>
        <IconButton label="Run options: input, arguments, environment, limits" pressed={isOpen}>
          <SlidersHorizontal size={14} />
        </IconButton>
      </Inspector>
    </div>
  );
}
