import { ArrowDown, ArrowLeft, ArrowRight, ArrowUp, Undo2 } from "lucide-react";
import type { ReactNode } from "react";
import { KeyRow, type Key } from "../../ui/KeyRow";
import type { Monaco } from "./monaco";

/** The keys that the keyboard of a phone lacks, for the editor. */
export function EditorKeys({ editor }: { editor: () => Monaco.editor.IStandaloneCodeEditor | null }) {
  const key = (label: string, shown: ReactNode, ...actions: string[]): Key => ({
    label,
    shown,
    press: () => {
      editor()?.focus();
      for (const action of actions) editor()?.trigger("keys", action, null);
    },
  });
  return (
    <KeyRow
      label="Keys"
      keys={[
        key("Escape", "Esc", "hideSuggestWidget", "closeParameterHints", "closeFindWidget", "cancelSelection"),
        key("Tab", "Tab", "tab"),
        key("Undo", <Undo2 size={14} />, "undo"),
        key("Left", <ArrowLeft size={14} />, "cursorLeft"),
        key("Up", <ArrowUp size={14} />, "cursorUp"),
        key("Down", <ArrowDown size={14} />, "cursorDown"),
        key("Right", <ArrowRight size={14} />, "cursorRight"),
      ]}
    />
  );
}
