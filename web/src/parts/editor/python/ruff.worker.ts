/** Ruff in a worker: finds mistakes in Python and formats it. */

import start, { PositionEncoding, Workspace, type Diagnostic } from "@astral-sh/ruff-wasm-web";
import wasm from "@astral-sh/ruff-wasm-web/ruff_wasm_bg.wasm?url";

export type Question = { id: number; kind: "check" | "format"; text: string };
export type Answer = { id: number; found?: Diagnostic[]; text?: string; problem?: string };

const LENGTH = 100;

// Only certain mistakes. A cell may end with a bare name or expression.
const ready = (async () => {
  await start({ module_or_path: wasm });
  return new Workspace(
    {
      "line-length": LENGTH,
      builtins: ["display", "get_ipython", "cloche", "In", "Out"],
      lint: {
        select: ["E7", "E9", "F", "B006", "B008", "PLE"],
        ignore: ["F403", "F405", "F704", "F706", "E701", "E702", "E703", "E731", "E741"],
      },
    },
    PositionEncoding.Utf16,
  );
})();

self.onmessage = async ({ data }: MessageEvent<Question>) => {
  const answer: Answer = { id: data.id };
  try {
    const workspace = await ready;
    if (data.kind === "check") answer.found = workspace.check(data.text) as Diagnostic[];
    else answer.text = workspace.format(data.text);
  } catch (problem) {
    answer.problem = problem instanceof Error ? problem.message : String(problem);
  }
  self.postMessage(answer);
};
