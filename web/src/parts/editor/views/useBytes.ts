import { useEffect, useState } from "react";
import * as api from "../../../api/cloche";
import { bytes } from "../../../state/format";
import { theSandbox } from "../../../state/sandbox";
import { touched } from "../../../state/tree";

const LOOK_MS = 300;

export type Contents = { phase: "loading" } | { phase: "failed"; problem: unknown } | { phase: "ready"; data: Blob; version: number };

/** The contents of a file, again whenever it changes; a file that is larger than `most` bytes is not loaded. */
export function useBytes(path: string, most: number): Contents & { again: () => void } {
  const [contents, setContents] = useState<Contents>({ phase: "loading" });
  const [times, setTimes] = useState(0);
  useEffect(() => {
    let isGone = false;
    const load = async (): Promise<Contents> => {
      try {
        const { size } = await api.stat(theSandbox(), path);
        if (size > most) throw new Error(`This file has ${bytes(size)}, and up to ${bytes(most)} are shown here. Download it to see it.`);
        return { phase: "ready", version: times, data: await (await api.readFile(theSandbox(), path)).blob() };
      } catch (problem) {
        return { phase: "failed", problem };
      }
    };
    void load().then((found) => !isGone && setContents(found));
    return () => {
      isGone = true;
    };
  }, [path, most, times]);
  useEffect(() => {
    let timer = 0;
    const stop = touched.on((change) => {
      if (change.path !== path) return;
      clearTimeout(timer);
      timer = window.setTimeout(() => setTimes((count) => count + 1), LOOK_MS);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [path]);
  return { ...contents, again: () => setTimes((count) => count + 1) };
}
