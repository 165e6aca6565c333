import { ContextMenu, DropdownMenu } from "radix-ui";
import { Check } from "lucide-react";
import type { ReactNode } from "react";
import { classes } from "./classes";
import { Keys } from "./Keys";

/** An entry of a menu; null is a line between two groups, a text a group's title. */
export type Entry =
  | { label: string; onSelect: () => void; icon?: ReactNode; keys?: string; checked?: boolean; danger?: boolean; disabled?: boolean; note?: string }
  | string
  | null;

const content =
  "appear z-50 min-w-44 max-h-[min(28rem,80vh)] overflow-y-auto rounded-lg border border-line bg-raised p-1 shadow-pop";
const item =
  "flex cursor-default items-center gap-2 rounded-md px-2 py-1.5 text-[0.8125rem] outline-none select-none " +
  "data-[highlighted]:bg-hover data-[disabled]:opacity-45";

function Inside({ entry }: { entry: Exclude<Entry, string | null> }) {
  return (
    <>
      {entry.checked !== undefined && <span className="w-3.5">{entry.checked && <Check size={14} />}</span>}
      {entry.icon && <span className="text-ink-faint">{entry.icon}</span>}
      <span className="flex-1 truncate">{entry.label}</span>
      {entry.note && <span className="pl-4 text-xs text-ink-faint">{entry.note}</span>}
      {entry.keys && <Keys keys={entry.keys} />}
    </>
  );
}

interface MenuProps {
  trigger: ReactNode;
  entries: Entry[];
  align?: "start" | "center" | "end";
}

/** A menu that opens below its button. */
export function Menu({ trigger, entries, align = "start" }: MenuProps) {
  return (
    <DropdownMenu.Root>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content align={align} sideOffset={5} collisionPadding={8} className={content}>
          {entries.map((entry, index) =>
            entry === null ? (
              <DropdownMenu.Separator key={index} className="my-1 h-px bg-line" />
            ) : typeof entry === "string" ? (
              <DropdownMenu.Label key={index} className="px-2 pt-1.5 pb-1 text-2xs font-medium text-ink-faint">
                {entry}
              </DropdownMenu.Label>
            ) : (
              <DropdownMenu.Item
                key={index}
                disabled={entry.disabled ?? false}
                onSelect={entry.onSelect}
                className={classes(item, entry.danger && "text-danger")}
              >
                <Inside entry={entry} />
              </DropdownMenu.Item>
            ),
          )}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

/** A context menu for its child. */
export function OtherMenu({ children, entries }: { children: ReactNode; entries: () => Entry[] }) {
  return (
    <ContextMenu.Root>
      <ContextMenu.Trigger asChild>{children}</ContextMenu.Trigger>
      <ContextMenu.Portal>
        <ContextMenu.Content collisionPadding={8} className={content}>
          {entries().map((entry, index) =>
            entry === null ? (
              <ContextMenu.Separator key={index} className="my-1 h-px bg-line" />
            ) : typeof entry === "string" ? (
              <ContextMenu.Label key={index} className="px-2 pt-1.5 pb-1 text-2xs font-medium text-ink-faint">
                {entry}
              </ContextMenu.Label>
            ) : (
              <ContextMenu.Item
                key={index}
                disabled={entry.disabled ?? false}
                onSelect={entry.onSelect}
                className={classes(item, entry.danger && "text-danger")}
              >
                <Inside entry={entry} />
              </ContextMenu.Item>
            ),
          )}
        </ContextMenu.Content>
      </ContextMenu.Portal>
    </ContextMenu.Root>
  );
}
