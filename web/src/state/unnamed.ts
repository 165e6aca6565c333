/** Names a sandbox that nobody has named yet after its first run. */

import { nameFor } from "./naming";
import { runs } from "./runs";
import { change, sandbox, UNNAMED } from "./sandbox";
import { attempt } from "./toasts";

const named = new Set<string>();

// When the first run begins. A name that somebody has given stays.
runs.subscribe(() => {
  const { record, phase } = sandbox.get();
  const [only, another] = runs.get().all;
  if (phase !== "open" || !record || !only || another || only.phase !== "starting") return;
  if (record.metadata.name !== UNNAMED || named.has(record.id)) return;
  const name = nameFor(only.asked.code);
  if (!name) return;
  named.add(record.id);
  attempt(() => change({ name }));
});
