import { Check, ChevronDown, Search } from "lucide-react";
import { Popover } from "radix-ui";
import { useState, type KeyboardEvent } from "react";
import type { LanguageAnswer } from "../../api/schema";
import { app } from "../../state/app";
import { inspector } from "../../state/inspector";
import { noteLanguage, ordered, titleOf } from "../../state/languages";
import { useStore } from "../../state/store";
import { classes } from "../../ui/classes";

interface Props {
  /** The language in which the file runs, and the one that its name stands for. */
  spoken: string;
  own: string | undefined;
}

/** The language to run the file in: those used most come first, all can be found by typing. */
export function LanguageMenu({ spoken, own }: Props) {
  const [isOpen, setOpen] = useState(false);
  const choose = (name: string) => {
    noteLanguage(name);
    inspector.set({ language: name === own ? null : name });
    setOpen(false);
  };
  return (
    <Popover.Root open={isOpen} onOpenChange={setOpen}>
      <Popover.Trigger asChild>
        <button
          type="button"
          aria-label={`Language: ${titleOf(spoken)}`}
          className="flex h-7 max-w-28 items-center gap-1 rounded-md px-1.5 text-xs text-ink-soft hover:bg-hover hover:text-ink max-md:max-w-22"
        >
          <span className="truncate">{titleOf(spoken)}</span>
          <ChevronDown size={12} className="shrink-0" />
        </button>
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          align="end"
          sideOffset={5}
          collisionPadding={8}
          aria-label="Run as"
          className="appear z-50 flex max-h-[min(28rem,var(--radix-popover-content-available-height))] w-64 max-w-[calc(100vw-1rem)] flex-col rounded-lg border border-line bg-raised shadow-pop"
        >
          <Choice spoken={spoken} choose={choose} />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

function Choice({ spoken, choose }: { spoken: string; choose: (name: string) => void }) {
  const offered = useStore(app, (state) => state.languages);
  const [text, setText] = useState("");
  const found = ordered(offered, text);
  const [at, setAt] = useState(() => Math.max(0, found.findIndex((one) => one.name === spoken)));
  const move = (to: number) => {
    const next = Math.max(0, Math.min(found.length - 1, to));
    setAt(next);
    document.getElementById(`language-${next}`)?.scrollIntoView({ block: "nearest" });
  };
  const onKey = (event: KeyboardEvent) => {
    const chosen = found[at];
    if (event.key === "ArrowDown") move(at + 1);
    else if (event.key === "ArrowUp") move(at - 1);
    else if (event.key === "PageDown") move(at + 8);
    else if (event.key === "PageUp") move(at - 8);
    else if (event.key === "Enter" && chosen && isOffered(chosen)) choose(chosen.name);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <div className="flex items-center gap-2 border-b border-line px-3">
        <Search size={13} className="shrink-0 text-ink-faint" aria-hidden="true" />
        <input
          autoFocus
          role="combobox"
          aria-expanded="true"
          aria-controls="languages"
          aria-activedescendant={found[at] ? `language-${at}` : undefined}
          aria-label="Find a language"
          placeholder="Find a language"
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={onKey}
          spellCheck={false}
          className="h-9 min-w-0 flex-1 bg-transparent text-[0.8125rem] outline-none placeholder:text-ink-faint"
        />
      </div>
      <ul id="languages" role="listbox" aria-label="Languages" className="min-h-0 overflow-y-auto overscroll-contain p-1">
        {found.map((one, index) => (
          <li
            key={one.name}
            id={`language-${index}`}
            role="option"
            aria-selected={index === at}
            aria-disabled={!isOffered(one)}
            aria-current={one.name === spoken ? "true" : undefined}
            onMouseMove={() => setAt(index)}
            onClick={() => isOffered(one) && choose(one.name)}
            className={classes("flex items-center gap-2 rounded-md px-2 py-1.5 text-[0.8125rem] max-md:py-2", index === at && "bg-hover", isOffered(one) ? "cursor-pointer" : "text-ink-faint")}
          >
            <span className="w-3.5 shrink-0">{one.name === spoken && <Check size={14} />}</span>
            <span className="flex-1 truncate">{one.title}</span>
            <span className="text-xs text-ink-faint">{one.version ?? (one.state === "installable" ? "not installed" : "not here")}</span>
          </li>
        ))}
        {found.length === 0 && <li className="px-3 py-4 text-center text-ink-faint">No language matches.</li>}
      </ul>
    </>
  );
}

const isOffered = (language: LanguageAnswer): boolean => language.state !== "unavailable";
