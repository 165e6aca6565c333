import { useCallback, useEffect, useMemo, useState } from "react";
import { theSandbox } from "../../../state/sandbox";
import { fileAddress } from "../../../api/cloche";
import { plain } from "../../../state/names";
import { baseOf, nameOf, touched } from "../../../state/tree";
import { classes } from "../../../ui/classes";
import { Failed, Loading } from "../../../ui/states";
import { inFile } from "../../table/source";
import type { Table } from "../../table/table";
import { TableView } from "../../table/TableView";

const FIRST = 200;
const LOOK_MS = 400;

interface Loaded {
  table: Table;
  sheets: string[];
  sheet: string;
  note: string;
}

/** A file as a table. A process in the sandbox reads it, and sends the rows that are scrolled to. */
export default function TableFile({ path }: { path: string }) {
  const [sheet, setSheet] = useState<string | null>(null);
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const [times, setTimes] = useState(0);
  const again = useCallback(() => setTimes((count) => count + 1), []);
  const source = useMemo(() => inFile(path, sheet), [path, sheet, loaded?.table]);

  useEffect(() => {
    const request = new AbortController();
    setProblem(null);
    inFile(path, sheet)({ limit: FIRST }, request.signal)
      .then((answer) => {
        if (request.signal.aborted) return;
        const { columns = [], index = null, shape, rows = [], sheets = [], note } = answer;
        setLoaded({ table: { columns, index, shape, rows, id: answer.version }, sheets, sheet: answer.sheet, note });
      })
      .catch((failure: unknown) => {
        if (!request.signal.aborted) setProblem(failure);
      });
    return () => request.abort();
  }, [path, sheet, times]);

  // Somebody writes the file, perhaps a program: once it is quiet, it is read again.
  useEffect(() => {
    let timer = 0;
    const stop = touched.on((change) => {
      if (change.path !== path) return;
      clearTimeout(timer);
      timer = window.setTimeout(again, LOOK_MS);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [path, again]);

  if (problem) {
    return (
      <div className="flex h-full flex-col">
        <div className="min-h-0 flex-1">
          <Failed problem={problem} retry={again} />
        </div>
        <p className="p-3 text-center text-xs text-ink-soft">
          <a className="text-accent underline" download={plain(baseOf(path))} href={fileAddress(theSandbox(), path)}>
            Download {nameOf(path)}
          </a>
        </p>
      </div>
    );
  }
  if (!loaded) return <Loading label={`Reading ${nameOf(path)}`} />;
  const about = (
    <>
      {loaded.note && <p className="shrink-0 border-t border-line bg-warn-soft px-2.5 py-1 text-xs text-warn">{loaded.note}</p>}
      {loaded.sheets.length > 1 && (
        <div role="group" aria-label="Sheets" className="flex shrink-0 gap-1 overflow-x-auto border-t border-line bg-sunken px-2 py-1">
          {loaded.sheets.map((name) => (
            <button
              key={name}
              type="button"
              aria-pressed={name === loaded.sheet}
              onClick={() => setSheet(name)}
              className={classes("h-6 shrink-0 rounded-md px-2 text-xs", name === loaded.sheet ? "bg-raised text-ink shadow-sm" : "text-ink-soft hover:bg-hover")}
            >
              {name}
            </button>
          ))}
        </div>
      )}
    </>
  );
  return (
    <TableView
      key={`${loaded.sheet} ${loaded.table.id}`}
      table={loaded.table}
      source={source}
      name={plain(baseOf(path)).replace(/\.\w+$/, "")}
      firstNumber={1}
      about={about}
      fills
    />
  );
}
