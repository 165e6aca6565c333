import { Search } from "lucide-react";
import { useId, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { classes } from "./classes";

const PAGE = 8;

interface Props<Item> {
  /** The items that a text finds, the best first; all for an empty one. */
  find: (text: string) => Item[];
  choose: (item: Item) => void;
  keyOf: (item: Item) => string;
  children: (item: Item) => ReactNode;
  /** The item that is marked at first, and the one that is in force. */
  current?: (item: Item) => boolean;
  disabled?: (item: Item) => boolean;
  placeholder: string;
  label: string;
  nothing: string;
  isLarge?: boolean;
}

/** A field to type in, and below it what that finds: chosen with the arrow keys and Enter, or with a click. */
export function Finder<Item>({ find, choose, keyOf, children, current, disabled, placeholder, label, nothing, isLarge = false }: Props<Item>) {
  const id = useId();
  const list = useRef<HTMLUListElement>(null);
  const [text, setText] = useState("");
  const found = find(text);
  const [at, setAt] = useState(() => Math.max(0, current ? found.findIndex(current) : 0));
  const move = (to: number) => {
    const next = Math.max(0, Math.min(found.length - 1, to));
    setAt(next);
    list.current?.children[next]?.scrollIntoView({ block: "nearest" });
  };
  const pick = (item: Item | undefined) => {
    if (item !== undefined && !disabled?.(item)) choose(item);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") move(at + 1);
    else if (event.key === "ArrowUp") move(at - 1);
    else if (event.key === "PageDown") move(at + PAGE);
    else if (event.key === "PageUp") move(at - PAGE);
    else if (event.key === "Enter") pick(found[at]);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <div className={classes("flex items-center border-b border-line", isLarge ? "gap-2.5 px-4" : "gap-2 px-3")}>
        <Search size={isLarge ? 15 : 13} className="shrink-0 text-ink-faint" aria-hidden="true" />
        <input
          autoFocus
          role="combobox"
          aria-expanded="true"
          aria-controls={id}
          aria-activedescendant={found[at] === undefined ? undefined : `${id}-${at}`}
          aria-label={placeholder}
          placeholder={placeholder}
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={onKey}
          spellCheck={false}
          className={classes("min-w-0 flex-1 bg-transparent outline-none placeholder:text-ink-faint", isLarge ? "h-11 text-sm" : "h-9 text-[0.8125rem]")}
        />
      </div>
      <ul ref={list} id={id} role="listbox" aria-label={label} className={classes("min-h-0 overflow-y-auto overscroll-contain", isLarge ? "p-1.5" : "p-1")}>
        {found.map((item, index) => (
          <li
            key={keyOf(item)}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === at}
            aria-disabled={disabled?.(item) ?? false}
            aria-current={current?.(item) ? "true" : undefined}
            onMouseMove={() => setAt(index)}
            onClick={() => pick(item)}
            className={classes(
              "flex items-center rounded-md py-1.5 max-md:py-2",
              isLarge ? "gap-3 px-2.5" : "gap-2 px-2 text-[0.8125rem]",
              index === at && "bg-hover",
              disabled?.(item) ? "text-ink-faint" : "cursor-pointer",
            )}
          >
            {children(item)}
          </li>
        ))}
        {found.length === 0 && (
          // A list box may contain nothing but options.
          <li role="option" aria-selected="false" aria-disabled="true" className={classes("px-3 text-center text-ink-faint", isLarge ? "py-6" : "py-4")}>
            {nothing}
          </li>
        )}
      </ul>
    </>
  );
}
