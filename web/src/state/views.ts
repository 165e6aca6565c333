/** Which files are shown as text and which in a view of their kind, as the person chose with the switch. */

import { reveal } from "./documents";
import { left } from "./sandbox";
import { createStore } from "./store";

export const views = createStore<{ asText: Record<string, boolean> }>({ asText: {} });

export const showAsText = (path: string, asText: boolean): void =>
  views.set((state) => ({ asText: { ...state.asText, [path]: asText } }));

// A place in a file is a line of its text.
reveal.on(({ path }) => showAsText(path, true));
left.on(() => views.set({ asText: {} }));
