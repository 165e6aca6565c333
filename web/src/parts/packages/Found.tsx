import { Check, PackageSearch } from "lucide-react";
import { explain } from "../../api/http";
import type { PackageLanguage } from "../../api/packages";
import { visible } from "../../state/names";
import { keyOf, type Offer } from "../../state/packageNames";
import { install, packages, searchAgain } from "../../state/packages";
import { useStore } from "../../state/store";
import { attempt } from "../../state/toasts";
import { Button } from "../../ui/Button";
import { focusNext } from "../../ui/focusNext";
import { Spinner } from "../../ui/states";
import { Heading } from "./Installed";
import { Progress, WorkProblem } from "./Progress";

interface Props {
  text: string;
  language: PackageLanguage;
  index: { phase: "none" | "asking" | "ready" | "failed"; problem: unknown; warnings: string[] };
  offers: Offer[];
}

/** The packages that the search has found. */
export function Found({ text, language, index: { phase, problem, warnings }, offers }: Props) {
  return (
    <div className="pb-1">
      <Heading title="Found" count={offers.length} />
      {offers.length > 0 && (
        <ul aria-label="Found" className="flex flex-col px-1.5">
          {offers.map((offer) => (
            <Row key={offer.name} offer={offer} language={language} />
          ))}
        </ul>
      )}
      <div role="status">
        {phase === "asking" && offers.length === 0 && <p className="px-3 py-2 text-xs text-ink-faint">Asking the index…</p>}
        {warnings.map((warning) => (
          <p key={warning} className="px-3 py-1 text-2xs text-warn">
            {warning}
          </p>
        ))}
        {phase === "ready" && offers.length === 0 && (
          <p className="flex gap-2 px-3 py-2 text-xs text-ink-faint">
            <PackageSearch size={15} className="mt-0.5 shrink-0" aria-hidden="true" />
            <span className="min-w-0 break-words">
              Nothing is called “{visible(text.trim())}”. Check the spelling, or search for a word such as {language === "python" ? "pdf" : "chart"}.
            </span>
          </p>
        )}
      </div>
      {phase === "failed" && (
        <div role="alert" className="flex flex-col items-start gap-1 px-3 py-2 text-2xs">
          <p className="text-danger">{explain(problem).message}</p>
          <p className="text-ink-soft">{explain(problem).hint}</p>
          <Button size="small" onClick={searchAgain}>
            Search again
          </Button>
        </div>
      )}
    </div>
  );
}

function Row({ offer: { name, requirement, version, summary, installed }, language }: { offer: Offer; language: PackageLanguage }) {
  const work = useStore(packages, (state) => state.work[keyOf(name, language)]);
  const isBusy = Boolean(work?.began);
  return (
    <li className="rounded-lg px-1.5 py-1.5 hover:bg-hover/60">
      <div className="flex items-center gap-2">
        <div className="min-w-0 flex-1">
          <p className="flex items-baseline gap-2">
            <span className="min-w-0 truncate font-mono text-xs font-medium" title={visible(name)}>
              {visible(name)}
            </span>
            <span className="max-w-[50%] shrink-0 truncate font-mono text-2xs text-ink-faint">{visible(version)}</span>
          </p>
          {summary && (
            <p className="truncate text-2xs text-ink-soft" title={visible(summary)}>
              {visible(summary)}
            </p>
          )}
        </div>
        {installed !== null && !isBusy ? (
          <span className="flex max-w-[55%] shrink-0 items-center gap-1 rounded-md bg-accent-soft px-1.5 py-0.5 text-2xs text-accent">
            <Check size={11} className="shrink-0" aria-hidden="true" />
            <span className="truncate">Installed{version === installed ? "" : ` ${visible(installed)}`}</span>
          </span>
        ) : (
          <Button
            size="small"
            data-walk
            aria-label={isBusy ? `Installing ${visible(requirement)}` : `Install ${visible(requirement)}`}
            aria-disabled={isBusy}
            className="aria-disabled:opacity-60 max-md:h-8"
            icon={isBusy ? <Spinner size={11} /> : null}
            onClick={(event) => attempt(focusNext(event.currentTarget, () => install(requirement, language)))}
          >
            {isBusy ? "Installing" : "Install"}
          </Button>
        )}
      </div>
      {work?.kind === "install" && (work.began === null ? <WorkProblem problem={work.problem} /> : <Progress label={`Installing ${visible(requirement)}`} began={work.began} />)}
    </li>
  );
}
