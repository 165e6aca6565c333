import { Play, RotateCcw, SlidersHorizontal, Square } from "lucide-react";
import { useEffect, useReducer } from "react";
import { app } from "../../state/app";
import { keysOf } from "../../state/commands";
import { documents } from "../../state/documents";
import { inspector } from "../../state/inspector";
import { languageOf } from "../../state/languages";
import { kindOf, restart, run, stopRuns } from "../../state/running";
import { runs } from "../../state/runs";
import { useStore } from "../../state/store";
import { Button, Hint, IconButton } from "../../ui/Button";
import { Inspector } from "./Inspector";
import { LanguageMenu } from "./LanguageMenu";

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
  const isOpen = useStore(app, (state) => state.inspector);
  const isBusy = useRunning();
  const own = path ? languageOf(path)?.name : undefined;
  const spoken = language ?? own ?? "python";
  return (
    <div className="flex items-center gap-1 pl-2">
      <LanguageMenu spoken={spoken} own={own} />
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
