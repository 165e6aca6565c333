import { Check, ChevronDown } from "lucide-react";
import { Popover } from "radix-ui";
import { useState } from "react";
import type { LanguageAnswer } from "../../api/schema";
import { app } from "../../state/app";
import { inspector } from "../../state/inspector";
import { noteLanguage, ordered, titleOf } from "../../state/languages";
import { useStore } from "../../state/store";
import { Finder } from "../../ui/Finder";

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
  return (
    <Finder
      find={(text) => ordered(offered, text)}
      choose={({ name }) => choose(name)}
      keyOf={({ name }) => name}
      current={({ name }) => name === spoken}
      disabled={(language) => !isOffered(language)}
      placeholder="Find a language"
      label="Languages"
      nothing="No language matches."
    >
      {(one) => (
        <>
          <span className="w-3.5 shrink-0">{one.name === spoken && <Check size={14} />}</span>
          <span className="flex-1 truncate">{one.title}</span>
          <span className="text-xs text-ink-faint">{one.version ?? (one.state === "installable" ? "not installed" : "not here")}</span>
        </>
      )}
    </Finder>
  );
}

const isOffered = (language: LanguageAnswer): boolean => language.state !== "unavailable";
