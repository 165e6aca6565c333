import { RefreshCw, RotateCw, Search, X } from "lucide-react";
import { useDeferredValue, useEffect, useMemo, useRef, type FormEvent } from "react";
import type { PackageLanguage } from "../../api/packages";
import { groupsOf, offersOf, typedPackage } from "../../state/packageNames";
import { chooseLanguage, forgetRestart, install, packages, refresh, search, watchPackages } from "../../state/packages";
import { restart } from "../../state/running";
import { useStore } from "../../state/store";
import { attempt } from "../../state/toasts";
import { Button, IconButton } from "../../ui/Button";
import { classes } from "../../ui/classes";
import { Pane } from "../../ui/Pane";
import { Failed, Loading, Spinner } from "../../ui/states";
import { walk } from "../../ui/walk";
import { Found } from "./Found";
import { Installed } from "./Installed";

/** The packages that programs in the sandbox can import, and those that can be installed. */
export function PackagesPanel() {
  const { phase, problem, all, language, text, search: index } = useStore(packages, (state) => state);
  const filter = useDeferredValue(text); // the field goes before the lists, which are long
  useEffect(watchPackages, []);
  const groups = useMemo(() => groupsOf(all, language, filter), [all, language, filter]);
  const offers = useMemo(
    () => offersOf(text, language, index.items, all, index.phase === "asking" || (index.phase === "ready" && index.warnings.length === 0)),
    [text, language, index, all],
  );
  return (
    <Pane
      title="Packages"
      actions={
        <IconButton label="Refresh" size="small" onClick={() => attempt(refresh)}>
          <RefreshCw size={13} />
        </IconButton>
      }
    >
      {phase === "failed" ? (
        <Failed problem={problem} retry={() => attempt(refresh)} />
      ) : phase === "none" ? (
        <Loading label="Loading packages" />
      ) : (
        <div className="flex h-full flex-col" onKeyDown={walk}>
          <div className="flex shrink-0 flex-col gap-1.5 border-b border-line p-1.5">
            <SearchField text={text} language={language} isAsking={index.phase === "asking"} />
            <Languages language={language} />
          </div>
          <Notices />
          <div role="group" aria-label="Lists of packages" tabIndex={0} className="min-h-0 flex-1 overflow-y-auto pb-2 outline-offset-[-2px]">
            {text.trim() && <Found text={text} language={language} index={index} offers={offers} />}
            <Installed own={groups.own} shared={groups.shared} text={filter.trim()} language={language} />
          </div>
        </div>
      )}
    </Pane>
  );
}

function SearchField({ text, language, isAsking }: { text: string; language: PackageLanguage; isAsking: boolean }) {
  const form = useRef<HTMLFormElement>(null);
  // A name alone may be a search, so Enter installs only what was typed with a version.
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const typed = typedPackage(text, language);
    if (typed?.hasVersion) attempt(() => install(typed.requirement, language));
    else form.current?.closest("section")?.querySelector<HTMLElement>("button[data-walk]")?.focus();
  };
  return (
    <form
      ref={form}
      role="search"
      onSubmit={submit}
      className="flex h-8 items-center gap-2 rounded-md border border-line-strong/60 bg-sunken px-2 focus-within:border-accent focus-within:ring-2 focus-within:ring-accent/20"
    >
      {isAsking ? (
        <span className="shrink-0 text-accent">
          <Spinner size={13} />
        </span>
      ) : (
        <Search size={13} className="shrink-0 text-ink-faint" aria-hidden="true" />
      )}
      <input
        type="search"
        data-walk
        value={text}
        maxLength={100}
        onChange={(event) => search(event.target.value)}
        aria-label="Search packages"
        placeholder={language === "python" ? "humanize, pdf, httpx==0.27.0" : "chalk, chart, zod@3"}
        enterKeyHint="search"
        spellCheck={false}
        autoComplete="off"
        autoCapitalize="none"
        className="min-w-0 flex-1 bg-transparent text-xs outline-none placeholder:text-ink-faint max-md:text-base"
      />
    </form>
  );
}

const languages: [PackageLanguage, string][] = [
  ["python", "Python"],
  ["javascript", "JavaScript"],
];

function Languages({ language }: { language: PackageLanguage }) {
  return (
    <div role="group" aria-label="Language" className="grid grid-cols-2 gap-0.5 rounded-md bg-sunken p-0.5">
      {languages.map(([name, title]) => (
        <button
          key={name}
          type="button"
          aria-pressed={language === name}
          onClick={() => chooseLanguage(name)}
          className={classes(
            "truncate rounded-[5px] py-0.5 text-xs transition-colors max-md:py-1.5",
            language === name ? "bg-raised font-medium text-ink shadow-sm" : "text-ink-soft hover:text-ink",
          )}
        >
          {title}
        </button>
      ))}
    </div>
  );
}

/** The outcome of the last work, and what remains to be done after it. */
function Notices() {
  const { news, warnings, restart: outdated } = useStore(packages, (state) => state);
  return (
    <>
      <div role="status">
        {news && <p className="border-b border-line px-3 py-1.5 text-2xs break-words text-ink-soft">{news}</p>}
        {warnings.map((warning) => (
          <p key={warning} className="border-b border-line bg-warn-soft px-3 py-1.5 text-2xs break-words text-warn">
            {warning}
          </p>
        ))}
        {outdated.length > 0 && (
          <div className="flex items-start gap-2 border-b border-line bg-warn-soft px-3 py-2 text-2xs text-warn">
            <div className="min-w-0 flex-1">
              <p className="break-words">
                A session has loaded another version of <span className="font-mono">{outdated.join(", ")}</span>. Restart it to use the new one. Variables are lost, files are kept.
              </p>
              <Button size="small" className="mt-1.5" icon={<RotateCw size={12} />} onClick={restart}>
                Restart
              </Button>
            </div>
            <IconButton label="Later" size="small" onClick={forgetRestart} className="-mr-1.5">
              <X size={12} />
            </IconButton>
          </div>
        )}
      </div>
    </>
  );
}
