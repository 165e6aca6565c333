import { Braces, Copy, RefreshCw, Search, TextCursorInput, Variable } from "lucide-react";
import { useEffect, useState } from "react";
import type { VariableAnswer } from "../../api/schema";
import { app, isPhone } from "../../state/app";
import { typing } from "../../state/cursor";
import { documents } from "../../state/documents";
import { bytes } from "../../state/format";
import { titleOf } from "../../state/languages";
import { visible } from "../../state/names";
import { useStore } from "../../state/store";
import { attempt, note } from "../../state/toasts";
import { choose, lookAt, refresh, search, variables, watchVariables } from "../../state/variables";
import { IconButton } from "../../ui/Button";
import { classes } from "../../ui/classes";
import { Pane } from "../../ui/Pane";
import { Empty, Failed, Loading } from "../../ui/states";
import { walk } from "../../ui/walk";

/** The variables of a session: name, type, shape and value. */
export function VariablesPanel() {
  const { phase, problem, contexts, context, state, items, total, search: text, changed } = useStore(variables, (all) => all);
  const [open, setOpen] = useState<string | null>(null);
  useEffect(watchVariables, []);
  const wanted = text.toLowerCase();
  const shown = items.filter((one) => one.name.toLowerCase().includes(wanted));
  const language = contexts.find((one) => one.id === context)?.language ?? "";
  const isSearchable = total > 0 || text !== "";
  return (
    <Pane
      title="Variables"
      actions={
        <IconButton label="Refresh" size="small" onClick={() => attempt(refresh)}>
          <RefreshCw size={13} />
        </IconButton>
      }
    >
      {phase === "none" ? (
        <Loading label="Loading variables" />
      ) : phase === "failed" ? (
        <Failed problem={problem} retry={() => attempt(refresh)} />
      ) : context === null ? (
        <Empty icon={<Variable size={22} />} title={state === "busy" ? "Code is running" : "No variables yet"}>
          {state === "busy" ? "Its variables appear here when it ends." : "Run code, and its variables appear here."}
        </Empty>
      ) : (
        <div className="flex h-full flex-col">
          {(contexts.length > 1 || isSearchable) && (
            <div className="flex shrink-0 flex-col gap-1.5 border-b border-line p-1.5">
              {contexts.length > 1 && (
                <select
                  aria-label="Session"
                  value={context}
                  onChange={(event) => (setOpen(null), choose(event.target.value))}
                  className="h-7 rounded-md border border-line-strong/60 bg-sunken px-1.5 text-xs outline-none focus:border-accent"
                >
                  {contexts.map((one) => (
                    <option key={one.id} value={one.id}>
                      {one.id === one.language ? titleOf(one.language) : `${titleOf(one.language)}, ${visible(one.id)}`}
                    </option>
                  ))}
                </select>
              )}
              {isSearchable && (
                <label className="flex h-7 items-center gap-1.5 rounded-md border border-line-strong/60 bg-sunken px-1.5 focus-within:border-accent">
                  <Search size={12} className="shrink-0 text-ink-faint" aria-hidden="true" />
                  <input
                    type="search"
                    value={text}
                    maxLength={100}
                    onChange={(event) => search(event.target.value)}
                    aria-label="Search variables"
                    placeholder="Search by name"
                    spellCheck={false}
                    autoComplete="off"
                    className="min-w-0 flex-1 bg-transparent text-xs outline-none placeholder:text-ink-faint"
                  />
                  <span role="status" className="text-2xs text-ink-faint tabular-nums">
                    {(text && shown.length < items.length ? shown.length : total).toLocaleString("en")}
                  </span>
                </label>
              )}
            </div>
          )}
          {state === "busy" && (
            <p role="status" className="flex shrink-0 items-center gap-2 border-b border-line px-3 py-1 text-2xs text-ink-soft">
              <span className="breathe size-1.5 rounded-full bg-accent" /> Code is running. The list is from before.
            </p>
          )}
          {state === "unsupported" ? (
            <Empty icon={<Braces size={22} />} title={`Not available for ${titleOf(language)}`}>
              Variables are listed for Python, JavaScript, TypeScript, Bash, R and Java.
            </Empty>
          ) : shown.length === 0 ? (
            <Empty icon={<Variable size={22} />} title={text ? "No variable has this in its name" : state === "busy" ? "Code is running" : "No variables yet"}>
              {text ? "Search for another part of the name." : state === "busy" ? "Its variables appear here when it ends." : "Assign something, run it, and it appears here."}
            </Empty>
          ) : (
            <div className={classes("min-h-0 flex-1 overflow-y-auto py-1", state === "busy" && "opacity-70")}>
              <ul aria-label="Variables" onKeyDown={walk} className="flex flex-col px-1.5">
                {shown.map((one) => (
                  <Row key={one.name} variable={one} isOpen={open === one.name} isNew={changed.has(one.name)} onToggle={() => setOpen(open === one.name ? null : one.name)} />
                ))}
              </ul>
              {items.length < total && (
                <p className="px-3 py-2 text-2xs text-ink-faint">
                  These are {items.length.toLocaleString("en")} of {total.toLocaleString("en")} variables. Search to find the others.
                </p>
              )}
            </div>
          )}
        </div>
      )}
    </Pane>
  );
}

interface RowProps {
  variable: VariableAnswer;
  isOpen: boolean;
  /** It is new since the last run, or has another value. */
  isNew: boolean;
  onToggle: () => void;
}

function Row({ variable, isOpen, isNew, onToggle }: RowProps) {
  const { name, type, shape, shown } = variable;
  return (
    // Rows that are out of sight are not laid out: there may be a thousand.
    <li className={classes("rounded-lg", isOpen && "bg-sunken")} style={isOpen ? undefined : { contentVisibility: "auto", containIntrinsicSize: "auto 42px" }}>
      <button type="button" data-walk aria-expanded={isOpen} onClick={onToggle} className="block w-full rounded-lg px-2 py-1 text-left hover:bg-hover">
        <span className="flex items-baseline gap-2">
          <span className="min-w-0 flex-1 truncate font-mono text-xs font-medium">
            {visible(name)}
            {isNew && <span role="img" aria-label="changed" className="ml-1.5 inline-block size-1.5 rounded-full bg-accent align-middle" />}
          </span>
          <span className="max-w-[60%] shrink-0 truncate text-2xs text-ink-faint">
            {visible(type)}
            {shape && <span className="text-ink-soft tabular-nums"> {visible(shape)}</span>}
          </span>
        </span>
        <span className="block truncate font-mono text-2xs leading-4 text-ink-soft">{visible(shown.replace(/\s+/g, " ")) || "\u200b"}</span>
      </button>
      {isOpen && <Details variable={variable} />}
    </li>
  );
}

/** More of the value, and what can be done with the name. */
function Details({ variable }: { variable: VariableAnswer }) {
  const [found, setFound] = useState<VariableAnswer | null>(null);
  const [isLost, setLost] = useState(false);
  const canInsert = useStore(documents, (state) => state.active !== null && state.byPath[state.active]?.phase === "ready");
  useEffect(() => {
    let isHere = true;
    lookAt(variable.name).then(
      (one) => isHere && (one ? setFound(one) : setLost(true)),
      () => isHere && setLost(true),
    );
    return () => void (isHere = false);
  }, [variable]);
  const insert = () => {
    if (isPhone()) app.set({ view: "code" });
    typing.emit(variable.name);
  };
  return (
    <div className="px-2 pb-1.5">
      <pre tabIndex={0} aria-label={`Value of ${variable.name}`} className="max-h-72 overflow-auto rounded-md border border-line bg-surface px-2 py-1.5 font-mono text-2xs leading-4 break-words whitespace-pre-wrap">
        {found ? found.shown || "The value cannot be shown." : isLost ? variable.shown : "…"}
      </pre>
      <div className="mt-1 flex items-center gap-0.5">
        <IconButton label="Copy the name" size="small" onClick={() => attempt(async () => (await navigator.clipboard.writeText(variable.name), note("Copied")))}>
          <Copy size={13} />
        </IconButton>
        <IconButton label="Insert the name into the editor" size="small" disabled={!canInsert} onClick={insert}>
          <TextCursorInput size={13} />
        </IconButton>
        {variable.size > 0 && <span className="ml-auto text-2xs text-ink-faint">{bytes(variable.size)}</span>}
      </div>
    </div>
  );
}
