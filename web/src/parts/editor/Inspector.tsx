import { Popover } from "radix-ui";
import { Plus, X } from "lucide-react";
import type { ReactNode } from "react";
import { app, isPhone, toggleSide } from "../../state/app";
import { documents } from "../../state/documents";
import { bytes, seconds } from "../../state/format";
import { inspector } from "../../state/inspector";
import { isProgram, isSession, languageOf, titleOf } from "../../state/languages";
import { kindOf } from "../../state/running";
import { sandbox } from "../../state/sandbox";
import { useStore } from "../../state/store";
import { Button, IconButton } from "../../ui/Button";
import { classes } from "../../ui/classes";
import { Field, input } from "../../ui/Dialog";

interface Props {
  open: boolean;
  onOpen: (open: boolean) => void;
  children: ReactNode;
}

function showNetwork(): void {
  app.set({ inspector: false });
  if (app.get().side !== "network" || isPhone()) toggleSide("network");
}

/** The options of the next run. */
export function Inspector({ open, onOpen, children }: Props) {
  return (
    <Popover.Root open={open} onOpenChange={onOpen}>
      <Popover.Trigger asChild>{children}</Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          align="end"
          sideOffset={6}
          collisionPadding={10}
          aria-label="Run options"
          className="appear z-30 w-80 max-w-[calc(100vw-1.5rem)] rounded-xl border border-line bg-raised shadow-pop"
        >
          <Settings />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

function Settings() {
  const state = useStore(inspector, (value) => value);
  const limits = useStore(sandbox, (value) => value.record?.limits ?? null);
  const path = useStore(documents, (value) => value.active);
  const language = state.language ?? (path ? languageOf(path)?.name : null) ?? "python";
  const canBeProgram = isProgram(language);
  const canBeCell = isSession(language);
  const isProgramNow = kindOf(language) === "program";
  return (
    <div className="flex max-h-[70vh] flex-col gap-3 overflow-y-auto p-4">
      <div role="radiogroup" aria-label="Run as" className="grid grid-cols-2 gap-1 rounded-lg bg-sunken p-1">
        {(["cell", "program"] as const).map((kind) => {
          const isOn = (kind === "program") === isProgramNow;
          return (
            <button
              key={kind}
              type="button"
              role="radio"
              aria-checked={isOn}
              disabled={kind === "program" ? !canBeProgram : !canBeCell}
              onClick={() => inspector.set({ kind })}
              className={classes("rounded-md py-1 text-xs font-medium disabled:opacity-40", isOn ? "bg-raised shadow-sm" : "text-ink-soft")}
            >
              {kind === "cell" ? "In the session" : "As a program"}
            </button>
          );
        })}
      </div>
      <p className="text-xs text-ink-faint">
        {isProgramNow
          ? "Runs in a new process with arguments. It sees the files, but no variables."
          : canBeProgram
            ? "Keeps variables from run to run. Mark cells with %%."
            : `${titleOf(language)} runs in the session; its variables stay from run to run.`}
      </p>
      {isProgramNow && (
        <Field label="Arguments" note="As in a shell: put quotes around words with spaces.">
          <input className={`${input} font-mono text-xs`} value={state.args} spellCheck={false} onChange={(event) => inspector.set({ args: event.target.value })} />
        </Field>
      )}
      <Field label="Standard input" note="Leave empty to type input while it runs.">
        <textarea
          rows={2}
          spellCheck={false}
          className={`${input} h-auto py-1.5 font-mono text-xs`}
          value={state.stdin}
          onChange={(event) => inspector.set({ stdin: event.target.value })}
        />
      </Field>
      <fieldset className="flex flex-col gap-1.5">
        <legend className="mb-1 text-xs font-medium text-ink-soft">Environment</legend>
        {state.env.map((one, index) => {
          const change = (changes: Partial<typeof one>) =>
            inspector.set({ env: state.env.map((other, at) => (at === index ? { ...other, ...changes } : other)) });
          return (
            <div key={index} className="flex items-center gap-1">
              <input aria-label="Name" placeholder="NAME" className={`${input} w-2/5 font-mono text-xs`} value={one.name} spellCheck={false} onChange={(event) => change({ name: event.target.value })} />
              <input aria-label={`Value of ${one.name || "the variable"}`} placeholder="value" className={`${input} font-mono text-xs`} value={one.value} spellCheck={false} onChange={(event) => change({ value: event.target.value })} />
              <IconButton label="Remove" size="small" onClick={() => inspector.set({ env: state.env.filter((_, at) => at !== index) })}>
                <X size={13} />
              </IconButton>
            </div>
          );
        })}
        <Button size="small" look="quiet" className="self-start" icon={<Plus size={12} />} onClick={() => inspector.set({ env: [...state.env, { name: "", value: "" }] })}>
          Add a variable
        </Button>
      </fieldset>
      <Field label="Time limit, in seconds" note={limits?.timeout ? `Leave empty for the sandbox’s limit, ${seconds(limits.timeout)}.` : "Leave empty for no limit."}>
        <input
          className={input}
          inputMode="decimal"
          value={state.timeout ?? ""}
          onChange={(event) => {
            const value = Number(event.target.value);
            inspector.set({ timeout: event.target.value && value > 0 ? value : null });
          }}
        />
      </Field>
      {limits && (
        <div className="border-t border-line pt-2.5 text-2xs leading-4 text-ink-faint">
          This sandbox may use {bytes(limits.memory)} of memory, {limits.cpu} {limits.cpu === 1 ? "core" : "cores"}, {bytes(limits.disk)} of disk and{" "}
          {limits.processes} processes.{" "}
          <button type="button" className="text-accent hover:underline" onClick={showNetwork}>
            What it may reach
          </button>
          {" · "}
          <button type="button" className="text-accent hover:underline" onClick={() => app.set({ inspector: false, limits: true })}>
            Other limits
          </button>
        </div>
      )}
    </div>
  );
}
