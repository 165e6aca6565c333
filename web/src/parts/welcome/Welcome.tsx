import { ChartSpline, Moon, Plus, Sun, Terminal, Undo2, Braces, type LucideIcon } from "lucide-react";
import { useEffect, useState } from "react";
import * as beyond from "../../api/beyond";
import type { TemplateSummary } from "../../api/schema";
import { app, isDark, setTheme } from "../../state/app";
import { beginEmpty, beginExample, beginTemplate, examples, isReady, type Example } from "../../state/examples";
import { about, titleOf } from "../../state/languages";
import { useStore } from "../../state/store";
import { complain } from "../../state/toasts";
import { baseOf } from "../../state/tree";
import { Bell, Wordmark } from "../../ui/Bell";
import { Button, IconButton } from "../../ui/Button";
import { classes } from "../../ui/classes";
import { Failed, Spinner } from "../../ui/states";
import { Connect } from "./Connect";
import { Recent } from "./Recent";

/** The start page: examples, recent sandboxes and templates. */
export function Welcome() {
  const [busy, setBusy] = useState("");
  const version = useStore(app, (state) => state.version);
  useStore(app, (state) => state.dark);
  const begin = (what: string, work: () => Promise<void>) => {
    if (busy) return;
    setBusy(what);
    void work().catch((problem: unknown) => {
      complain(problem);
      location.hash = "";
      setBusy("");
    });
  };
  return (
    <div className="h-full overflow-y-auto">
      <header className="mx-auto flex h-14 max-w-5xl items-center justify-between px-5">
        <Wordmark />
        <span className="flex items-center gap-3">
          <a href="#/keys" className="rounded text-xs text-ink-soft hover:text-ink">Keys and usage</a>
          <a href="/docs" className="rounded text-xs text-ink-soft hover:text-ink">HTTP API</a>
          <span className="text-2xs text-ink-faint">{version}</span>
          <IconButton label={isDark() ? "Light theme" : "Dark theme"} onClick={() => setTheme(isDark() ? "light" : "dark")}>
            {isDark() ? <Sun size={15} /> : <Moon size={15} />}
          </IconButton>
        </span>
      </header>
      <main className="mx-auto flex max-w-5xl flex-col gap-10 px-5 pt-6 pb-16 md:pt-12">
        <div className="flex flex-col items-center gap-4 text-center">
          <span className="text-accent"><Bell size={52} /></span>
          <h1 className="font-display text-5xl leading-none tracking-tight md:text-6xl">Code under glass</h1>
          <p className="max-w-md text-[0.9375rem] leading-6 text-balance text-ink-soft">Run anything. You see everything and can undo any run. Nothing gets out.</p>
          <Button look="primary" size="large" className="mt-1" disabled={busy !== ""} onClick={() => begin("empty", beginEmpty)} icon={busy === "empty" ? <Spinner /> : <Plus size={16} />}>
            New sandbox
          </Button>
        </div>
        <section aria-label="Examples">
          <h2 className="mb-2.5 text-xs font-semibold text-ink-soft">Run an example</h2>
          <div className="grid gap-2.5 sm:grid-cols-2 lg:grid-cols-4">
            {examples.map((example) => (
              <ExampleCard key={example.id} example={example} busy={busy} onRun={() => begin(example.id, () => beginExample(example))} />
            ))}
          </div>
        </section>
        <Recent />
        <Connect />
        <Templates busy={busy} onBegin={(name) => begin(name, () => beginTemplate(name))} />
      </main>
    </div>
  );
}

const icons: Record<Example["id"], LucideIcon> = { chart: ChartSpline, typescript: Braces, bash: Terminal, undo: Undo2 };

function ExampleCard({ example, busy, onRun }: { example: Example; busy: string; onRun: () => void }) {
  const Icon = icons[example.id];
  const ready = isReady(example.language);
  return (
    <button
      type="button"
      disabled={busy !== "" || !ready}
      title={ready ? undefined : about(example.language)?.hint}
      onClick={onRun}
      className="pane flex flex-col items-start gap-2 p-4 text-left transition-[transform,border-color] duration-150 hover:-translate-y-0.5 hover:border-accent/50 disabled:opacity-60 disabled:hover:translate-y-0"
    >
      <span className="flex items-center gap-3 sm:flex-col sm:items-start">
        <span className="flex size-9 shrink-0 items-center justify-center rounded-lg bg-accent-soft text-accent">{busy === example.id ? <Spinner size={17} /> : <Icon size={17} />}</span>
        <span className="font-medium">{example.title}</span>
      </span>
      <span className="text-xs text-ink-soft">{example.about}</span>
      <span className="mt-auto pt-1 text-2xs text-ink-faint">{ready ? titleOf(example.language) : "not installed here"}</span>
    </button>
  );
}

function Templates({ busy, onBegin }: { busy: string; onBegin: (name: string) => void }) {
  const [found, setFound] = useState<TemplateSummary[] | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const load = () => {
    setProblem(null);
    beyond.templates().then(setFound, setProblem);
  };
  useEffect(load, []);
  return (
    <section aria-label="Templates">
      <h2 className="mb-2.5 text-xs font-semibold text-ink-soft">Start from a project</h2>
      {problem ? (
        <Failed problem={problem} retry={load} />
      ) : (
        <div className="grid grid-cols-2 gap-2.5 sm:grid-cols-3 lg:grid-cols-5">
          {found === null
            ? Array.from({ length: 10 }, (_, index) => <div key={index} className="pane breathe h-32 opacity-60" aria-hidden="true" />)
            : found.map((template) => <TemplateCard key={template.name} template={template} busy={busy} onBegin={onBegin} />)}
        </div>
      )}
    </section>
  );
}

function TemplateCard({ template, busy, onBegin }: { template: TemplateSummary; busy: string; onBegin: (name: string) => void }) {
  const ready = isReady(template.language);
  const words = template.description.replace(/^[^:]{1,20}:\s*/, "");
  return (
    <button
      type="button"
      disabled={busy !== ""}
      title={ready ? undefined : about(template.language)?.hint}
      onClick={() => onBegin(template.name)}
      className="pane flex flex-col gap-1.5 px-3.5 py-3 text-left transition-colors hover:border-accent/50 hover:bg-hover disabled:opacity-60"
    >
      <span className="flex w-full items-center justify-between gap-2">
        <span className={classes("rounded-md px-1.5 py-px text-2xs font-medium", ready ? "bg-accent-soft text-accent" : "bg-sunken text-ink-faint")}>{titleOf(template.language)}</span>
        {busy === template.name ? <Spinner /> : !ready && <span className="text-2xs text-warn">not installed here</span>}
      </span>
      <span className="font-medium">{template.name}</span>
      <span className="text-xs text-ink-soft first-letter:uppercase">{words}</span>
      <span className="mt-auto pt-1 text-2xs text-ink-faint">
        {baseOf(template.entry)} · {template.files.length} {template.files.length === 1 ? "file" : "files"}
      </span>
    </button>
  );
}
