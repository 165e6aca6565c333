import { Dialog as Radix } from "radix-ui";
import { X } from "lucide-react";
import { useRef, useState, type FormEvent, type ReactNode } from "react";
import { Button, IconButton } from "./Button";
import { classes } from "./classes";

interface Props {
  open: boolean;
  onClose: () => void;
  /** It is gone, and the focus is back where it was. */
  onClosed?: () => void;
  title: string;
  about?: string;
  wide?: boolean;
  /** Hides the title visually; screen readers still read it. */
  bare?: boolean;
  children: ReactNode;
}

/** A window in front of everything else; Escape closes it. */
export function Dialog({ open, onClose, onClosed, title, about, wide = false, bare = false, children }: Props) {
  const content = useRef<HTMLDivElement>(null);
  const [wasOpen, setWasOpen] = useState(false);
  const [origin, setOrigin] = useState<Element | null>(null);
  if (open !== wasOpen) {
    setWasOpen(open);
    if (open) setOrigin(document.activeElement); // before anything in it takes the focus
  }
  // Not the button that closes it: its tooltip would cover the title, and take the first Escape.
  const begin = (event: Event) => {
    event.preventDefault();
    (content.current?.querySelector<HTMLElement>("input, select, textarea") ?? content.current)?.focus();
  };
  // Radix knows only buttons of its own, and would leave the focus nowhere.
  const end = (event: Event) => {
    event.preventDefault();
    if (origin instanceof HTMLElement && origin.isConnected) origin.focus();
    onClosed?.();
  };
  return (
    <Radix.Root open={open} onOpenChange={(now) => !now && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-[rgb(10_14_12/0.45)] backdrop-blur-[2px]" />
        <Radix.Content
          ref={content}
          onOpenAutoFocus={begin}
          onCloseAutoFocus={end}
          {...(about ? {} : { "aria-describedby": undefined })}
          className={classes(
            "appear fixed top-[12vh] left-1/2 z-50 flex max-h-[76vh] w-[calc(100vw-1.5rem)] -translate-x-1/2 flex-col",
            "rounded-xl border border-line bg-raised shadow-pop outline-none",
            wide ? "max-w-3xl" : "max-w-md",
          )}
        >
          {bare ? (
            <Radix.Title className="sr-only">{title}</Radix.Title>
          ) : (
            <div className="flex items-start justify-between gap-4 px-5 pt-4 pb-1">
              <div>
                <Radix.Title className="text-[0.9375rem] font-semibold">{title}</Radix.Title>
                {about && <Radix.Description className="mt-1 text-ink-soft">{about}</Radix.Description>}
              </div>
              <Radix.Close asChild>
                <IconButton label="Close" size="small">
                  <X size={15} />
                </IconButton>
              </Radix.Close>
            </div>
          )}
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

interface AskProps {
  open: boolean;
  title: string;
  about?: string;
  label: string;
  initial?: string;
  action: string;
  /** The problem with the value; empty if it is valid. */
  problem?: (value: string) => string;
  onClose: () => void;
  onAnswer: (value: string) => void;
}

/** Asks for one line of text. */
export function Ask({ open, title, about, label, initial = "", action, problem, onClose, onAnswer }: AskProps) {
  return (
    <Dialog open={open} onClose={onClose} title={title} {...(about ? { about } : {})}>
      {open && <AskForm {...{ label, initial, action, problem, onClose, onAnswer }} />}
    </Dialog>
  );
}

type FormProps = Pick<AskProps, "label" | "initial" | "action" | "onClose" | "onAnswer"> & {
  problem: AskProps["problem"] | undefined;
};

function AskForm({ label, initial = "", action, problem, onClose, onAnswer }: FormProps) {
  const [value, setValue] = useState(initial);
  const wrong = problem?.(value) ?? "";
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (wrong || !value.trim()) return;
    onAnswer(value.trim());
    onClose();
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-4 px-5 pt-2 pb-5">
      <Field label={label} wrong={wrong}>
        <input
          autoFocus
          value={value}
          onChange={(event) => setValue(event.target.value)}
          onFocus={(event) => event.target.select()}
          spellCheck={false}
          className={input}
        />
      </Field>
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" type="submit" disabled={!value.trim() || wrong !== ""}>
          {action}
        </Button>
      </div>
    </form>
  );
}

export const input =
  "h-8 w-full rounded-lg border border-line-strong/70 bg-surface px-2.5 text-[0.8125rem] text-ink outline-none " +
  "placeholder:text-ink-faint focus-visible:border-accent focus-visible:ring-2 focus-visible:ring-accent/25";

export function Field({ label, wrong = "", note, children }: { label: string; wrong?: string; note?: string; children: ReactNode }) {
  return (
    <label className="flex flex-col gap-1">
      <span className="text-xs font-medium text-ink-soft">{label}</span>
      {children}
      {wrong ? <span role="alert" className="text-xs text-danger">{wrong}</span> : note && <span className="text-xs text-ink-faint">{note}</span>}
    </label>
  );
}

interface ConfirmProps {
  open: boolean;
  title: string;
  about: string;
  action: string;
  onClose: () => void;
  onConfirm: () => void;
}

/** Asks before an action that cannot be undone. */
export function Confirm({ open, title, about, action, onClose, onConfirm }: ConfirmProps) {
  return (
    <Dialog open={open} onClose={onClose} title={title} about={about}>
      <div className="flex justify-end gap-2 px-5 pt-3 pb-5">
        <Button onClick={onClose}>Cancel</Button>
        <Button
          autoFocus
          look="danger"
          onClick={() => {
            onConfirm();
            onClose();
          }}
        >
          {action}
        </Button>
      </div>
    </Dialog>
  );
}
