import { FileDiff, FileMinus, FilePlus } from "lucide-react";
import { Suspense, useState, type ReactNode } from "react";
import type { ComparedAnswer, ComparedFile, ComparedVariable } from "../../api/schema";
import { bytes } from "../../state/format";
import { visible } from "../../state/names";
import { useStore } from "../../state/store";
import { closeComparison, timeline } from "../../state/timeline";
import { classes } from "../../ui/classes";
import { Dialog } from "../../ui/Dialog";
import { Empty, Failed, Loading } from "../../ui/states";
import { lazily } from "../../ui/lazily";

const Difference = lazily(() => import("./Difference"));

/** The differences between two points: variables in a table, files line by line. */
export default function Comparison() {
  const comparison = useStore(timeline, (state) => state.comparison);
  if (!comparison) return null;
  const { before, after, answer, problem } = comparison;
  return (
    <Dialog open wide title="Differences" about={`From ${before.label} to ${after.label}.`} onClose={closeComparison}>
      <div className="mt-2 min-h-40 overflow-y-auto border-t border-line">
        {problem ? (
          <div className="h-40"><Failed problem={problem} /></div>
        ) : answer ? (
          <Answer answer={answer} />
        ) : (
          <div className="h-40"><Loading label="Comparing" /></div>
        )}
      </div>
    </Dialog>
  );
}

function Answer({ answer }: { answer: ComparedAnswer }) {
  const { variables, files, truncated } = answer;
  if (variables.length === 0 && files.length === 0) {
    return <div className="h-40"><Empty title="No differences">Python’s variables and the files are the same at both points.</Empty></div>;
  }
  return (
    <>
      <Section title="Variables" count={variables.length}>
        {variables.length > 0 && <Variables variables={variables} />}
      </Section>
      <Section title="Files" count={files.length}>
        {files.map((file) => (
          <File key={file.path} file={file} />
        ))}
        {truncated && <p className="px-5 py-2 text-2xs text-warn">There are more differences than can be shown.</p>}
      </Section>
    </>
  );
}

function Section({ title, count, children }: { title: string; count: number; children: ReactNode }) {
  return (
    <section aria-label={title} className="border-b border-line last:border-0">
      <h3 className="px-5 pt-3 pb-1.5 text-xs font-semibold text-ink-soft">
        {title} <span className="font-normal text-ink-faint">{count === 0 ? "do not differ" : count}</span>
      </h3>
      <div className={classes(count > 0 && "pb-2")}>{children}</div>
    </section>
  );
}

function Variables({ variables }: { variables: ComparedVariable[] }) {
  const value = (side: ComparedVariable["before"]) =>
    side === null ? <span className="text-ink-faint">none</span> : <span title={side.type}>{side.shown}</span>;
  return (
    <table className="w-full table-fixed text-left font-mono text-xs">
      <thead className="font-sans text-2xs text-ink-faint">
        <tr>
          <th scope="col" className="w-1/5 px-5 py-1 font-normal">Name</th>
          <th scope="col" className="py-1 pr-3 font-normal">Before</th>
          <th scope="col" className="py-1 pr-5 font-normal">After</th>
        </tr>
      </thead>
      <tbody>
        {variables.map((one) => (
          <tr key={one.name} className="border-t border-line align-top">
            <td className="truncate px-5 py-1.5 font-medium" title={one.name}>{one.name}</td>
            <td className="py-1.5 pr-3 break-words text-danger">{value(one.before)}</td>
            <td className="py-1.5 pr-5 break-words text-accent">{value(one.after)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const icons = { created: FilePlus, changed: FileDiff, removed: FileMinus };
const tints = { created: "text-accent", changed: "text-info", removed: "text-danger" };

function File({ file }: { file: ComparedFile }) {
  const [open, setOpen] = useState(false);
  const Icon = icons[file.kind];
  const isText = file.before?.text !== null && file.after?.text !== null;
  const size = (side: ComparedFile["before"]) => (side === null ? "none" : bytes(side.size));
  return (
    <div>
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        className="flex w-full items-center gap-2 px-5 py-1.5 text-left hover:bg-hover"
      >
        <Icon size={14} className={classes("shrink-0", tints[file.kind])} aria-hidden="true" />
        <span className="min-w-0 flex-1 truncate font-mono text-xs">{visible(file.path)}</span>
        <span className="text-2xs text-ink-faint">{file.kind}</span>
        <span className="w-32 text-right text-2xs text-ink-faint tabular-nums">
          {size(file.before)} → {size(file.after)}
        </span>
      </button>
      {open &&
        (isText ? (
          <Suspense fallback={<div className="h-40"><Loading label="Loading the editor" /></div>}>
            <Difference path={file.path} before={file.before?.text ?? ""} after={file.after?.text ?? ""} />
          </Suspense>
        ) : (
          <p className="px-5 pb-2 text-xs text-ink-faint">This file is not text, or too large to show.</p>
        ))}
    </div>
  );
}
