import { previews } from "../../state/previews";
import { useStore } from "../../state/store";
import { OutputPanel } from "../output/OutputPanel";
import { PreviewPanel } from "./PreviewPanel";

/** The output of runs, and the previews of servers. A preview that was shown once goes on behind the others. */
export function ResultsPanel() {
  const { all, shown } = useStore(previews, (state) => state);
  return (
    <>
      <div hidden={shown !== null} className="h-full">
        <OutputPanel />
      </div>
      {all
        .filter((one) => one.port === shown || one.address)
        .map((one) => (
          <div key={one.port} hidden={one.port !== shown} className="h-full">
            <PreviewPanel preview={one} />
          </div>
        ))}
    </>
  );
}
