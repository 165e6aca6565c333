import { useState, type FormEvent } from "react";
import { LIMITS, type Limit } from "../api/limits";
import type { LimitsAnswer } from "../api/schema";
import { app } from "../state/app";
import { saveAll } from "../state/documents";
import { moveInto, sandbox } from "../state/sandbox";
import { useStore } from "../state/store";
import { attempt } from "../state/toasts";
import { Button } from "../ui/Button";
import { Dialog, Field, input } from "../ui/Dialog";

const MEGA = 1 << 20;
const SHOWN = { seconds: ", seconds", bytes: ", MB", cores: ", cores", processes: "" };

/** The form for a sandbox's limits. They cannot change while it runs: the files move into a new sandbox. */
export function Limits() {
  const open = useStore(app, (state) => state.limits);
  const limits = useStore(sandbox, (state) => state.record?.limits ?? null);
  const close = () => app.set({ limits: false });
  return (
    <Dialog open={open} onClose={close} title="Limits of this sandbox" about="Your files move into a new sandbox with these limits. Variables are lost.">
      {open && limits && <Form limits={limits} onDone={close} />}
    </Dialog>
  );
}

/** The text in a field; an empty one stands for no limit of time. */
function written({ name, unit }: Limit, limits: LimitsAnswer): string {
  const value = limits[name];
  if (value === null) return "";
  return String(unit === "bytes" ? Math.round(value / MEGA) : value);
}

function read({ unit }: Limit, text: string): number | null {
  if (text === "" && unit === "seconds") return null;
  return unit === "bytes" ? Number(text) * MEGA : Number(text);
}

function Form({ limits, onDone }: { limits: LimitsAnswer; onDone: () => void }) {
  const [values, setValues] = useState<Partial<Record<Limit["name"], string>>>(() =>
    Object.fromEntries(LIMITS.map((limit) => [limit.name, written(limit, limits)])),
  );
  const isWrong = LIMITS.some((limit) => {
    const value = read(limit, values[limit.name] ?? "");
    return value !== null && !(value >= limit.low && value <= limit.high);
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onDone();
    attempt(async () => {
      await saveAll();
      // A field that nobody touched keeps its exact value, which the form shows rounded.
      const changed = LIMITS.map((limit) => {
        const text = values[limit.name] ?? "";
        return [limit.name, text === written(limit, limits) ? limits[limit.name] : read(limit, text)] as const;
      });
      await moveInto(Object.fromEntries(changed));
    });
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-4 px-5 pt-3 pb-5">
      <div className="grid grid-cols-2 gap-3">
        {LIMITS.map(({ name, title, unit }) => (
          <Field key={name} label={`${title}${SHOWN[unit]}`}>
            <input
              className={input}
              inputMode="decimal"
              value={values[name] ?? ""}
              onChange={(event) => setValues({ ...values, [name]: event.target.value })}
            />
          </Field>
        ))}
      </div>
      <div className="flex justify-end gap-2">
        <Button onClick={onDone}>Cancel</Button>
        <Button look="primary" type="submit" disabled={isWrong}>
          Move to a new sandbox
        </Button>
      </div>
    </form>
  );
}
