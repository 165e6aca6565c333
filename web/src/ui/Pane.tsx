import type { ReactNode } from "react";

interface Props {
  title: string;
  /** Stands for the title where it is more than a text. */
  heading?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

/** The inside of a panel: a title, its actions and its content. */
export function Pane({ title, heading, actions, children }: Props) {
  return (
    <section aria-label={title} className="flex h-full min-h-0 flex-col">
      <header className="flex h-9 shrink-0 items-center justify-between gap-2 border-b border-line pr-1.5 pl-3">
        {heading ?? <h2 className="truncate text-xs font-semibold text-ink-soft">{title}</h2>}
        <div className="flex items-center gap-0.5">{actions}</div>
      </header>
      <div className="min-h-0 flex-1">{children}</div>
    </section>
  );
}
