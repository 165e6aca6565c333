import { useState, type FormEvent } from "react";
import type { LimitsAnswer } from "../api/schema";
import { app } from "../state/app";
import { saveAll } from "../state/documents";
import { moveInto, sandbox } from "../state/sandbox";
import { useStore } from "../state/store";
import { attempt } from "../state/toasts";
import { Button } from "../ui/Button";
import { Dialog, Field, input } from "../ui/Dialog";

const MEGA = 1 << 20;

/** What the sandbox may use. A wall cannot be moved while somebody is inside: the files go to a new one. */
export function Limits() {
  const open = useStore(app, (state) => state.limits);
  const limits = useStore(sandbox, (state) => state.record?.limits ?? null);
  const close = () => app.set({ limits: false });
  return (
    <Dialog open={open} onClose={close} title="Limits of this sandbox" about="Your files move into a new sandbox with these limits. Variables do not come along.">
      {open && limits && <Form limits={limits} onDone={close} />}
    </Dialog>
  );
}

const fields: { name: "memory" | "cpu" | "disk" | "processes" | "timeout"; label: string }[] = [
  { name: "memory", label: "Memory, MB" },
  { name: "cpu", label: "Cores" },
  { name: "disk", label: "Disk, MB" },
  { name: "processes", label: "Processes" },
  { name: "timeout", label: "Seconds for each run" },
];

function Form({ limits, onDone }: { limits: LimitsAnswer; onDone: () => void }) {
  const [values, setValues] = useState({
    memory: String(Math.round(limits.memory / MEGA)),
    cpu: String(limits.cpu),
    disk: String(Math.round(limits.disk / MEGA)),
    processes: String(limits.processes),
    timeout: limits.timeout === null ? "" : String(limits.timeout),
  });
  const isWrong = fields.some(({ name }) => !(Number(values[name]) > 0) && !(name === "timeout" && values.timeout === ""));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onDone();
    attempt(async () => {
      await saveAll();
      await moveInto({
        memory: Number(values.memory) * MEGA,
        cpu: Number(values.cpu),
        disk: Number(values.disk) * MEGA,
        processes: Number(values.processes),
        timeout: values.timeout ? Number(values.timeout) : null,
      });
    });
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-4 px-5 pt-3 pb-5">
      <div className="grid grid-cols-2 gap-3">
        {fields.map(({ name, label }) => (
          <Field key={name} label={label}>
            <input
              className={input}
              inputMode="decimal"
              value={values[name]}
              onChange={(event) => setValues({ ...values, [name]: event.target.value })}
            />
          </Field>
        ))}
      </div>
      <div className="flex justify-end gap-2">
        <Button onClick={onDone}>Cancel</Button>
        <Button look="primary" type="submit" disabled={isWrong}>
          Start anew with these
        </Button>
      </div>
    </form>
  );
}
