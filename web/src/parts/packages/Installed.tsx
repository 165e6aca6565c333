import { PackagePlus, Trash2 } from "lucide-react";
import type { ReactNode } from "react";
import type { PackageLanguage } from "../../api/packages";
import type { PackageAnswer } from "../../api/schema";
import { bytes } from "../../state/format";
import { visible } from "../../state/names";
import { keyOf } from "../../state/packageNames";
import { packages, remove } from "../../state/packages";
import { useStore } from "../../state/store";
import { attempt } from "../../state/toasts";
import { IconButton } from "../../ui/Button";
import { focusNext } from "../../ui/focusNext";
import { Spinner } from "../../ui/states";
import { Progress, WorkProblem } from "./Progress";

interface Props {
  own: PackageAnswer[];
  shared: PackageAnswer[];
  /** Filters both lists. */
  text: string;
  language: PackageLanguage;
}

/** What programs can import: the packages of this sandbox, then those that every sandbox has. */
export function Installed({ own, shared, text, language }: Props) {
  return (
    <>
      {(own.length > 0 || !text) && <Heading title="In this sandbox" count={own.length} />}
      {own.length > 0 ? (
        <ul aria-label="In this sandbox" className="flex flex-col px-1.5">
          {own.map((one) => (
            <OwnRow key={one.name} one={one} />
          ))}
        </ul>
      ) : (
        !text && (
          <div className="mx-3 mb-1 flex items-start gap-2.5 rounded-lg border border-dashed border-line-strong/60 px-3 py-2.5 text-xs text-ink-faint">
            <PackagePlus size={16} className="mt-0.5 shrink-0" aria-hidden="true" />
            <p className="min-w-0">
              Nothing is installed yet. Search above, or run{" "}
              <code className="font-mono text-2xs whitespace-nowrap text-ink-soft">{language === "python" ? "!pip install humanize" : "npm install chalk"}</code> in a{" "}
              {language === "python" ? "cell" : "terminal"}. It needs no network policy.
            </p>
          </div>
        )
      )}
      {shared.length > 0 && (
        <>
          <Heading title="In every sandbox" count={shared.length} />
          <ul aria-label="In every sandbox" className="flex flex-col px-1.5">
            {shared.map((one) => (
              // Rows that are out of sight are not laid out: there are hundreds.
              <li key={one.name} className="flex h-6 items-center rounded-md px-1.5 hover:bg-hover/60" style={{ contentVisibility: "auto", containIntrinsicSize: "auto 24px" }}>
                <Name one={one} />
              </li>
            ))}
          </ul>
        </>
      )}
      {text && own.length + shared.length === 0 && <p className="px-3 py-2 text-2xs text-ink-faint">No installed package has this in its name.</p>}
    </>
  );
}

export function Heading({ title, count }: { title: string; count: number }): ReactNode {
  return (
    <h3 className="sticky top-0 z-10 flex items-baseline justify-between gap-2 bg-surface px-3 pt-2.5 pb-1 text-2xs font-medium text-ink-faint">
      {title}
      <span className="font-normal tabular-nums">{count.toLocaleString("en")}</span>
    </h3>
  );
}

function Name({ one }: { one: PackageAnswer }) {
  return (
    <p className="flex min-w-0 flex-1 items-baseline gap-2">
      <span className="min-w-0 flex-1 truncate font-mono text-xs" title={visible(one.name)}>
        {visible(one.name)}
      </span>
      <span className="max-w-[45%] shrink-0 truncate font-mono text-2xs text-ink-faint tabular-nums">{visible(one.version)}</span>
      {one.size !== null && <span className="shrink-0 text-2xs text-ink-soft tabular-nums">{bytes(one.size)}</span>}
    </p>
  );
}

function OwnRow({ one }: { one: PackageAnswer }) {
  const work = useStore(packages, (state) => state.work[keyOf(one.name, one.language)]);
  const isBusy = work?.kind === "remove" && work.began !== null;
  return (
    <li className="rounded-lg px-1.5 py-0.5 hover:bg-hover/60">
      <div className="flex items-center gap-1.5">
        <Name one={one} />
        <IconButton
          label={`${isBusy ? "Removing" : "Remove"} ${visible(one.name)}`}
          size="small"
          side="left"
          data-walk
          aria-disabled={isBusy}
          className="-mr-1 max-md:size-8"
          onClick={(event) => attempt(focusNext(event.currentTarget, () => remove(one.name, one.language)))}
        >
          {isBusy ? <Spinner size={13} /> : <Trash2 size={13} />}
        </IconButton>
      </div>
      {work?.kind === "remove" && (work.began === null ? <WorkProblem problem={work.problem} /> : <Progress label={`Removing ${visible(one.name)}`} began={work.began} />)}
    </li>
  );
}
