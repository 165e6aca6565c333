import { Tooltip } from "radix-ui";
import type { ButtonHTMLAttributes, ReactNode } from "react";
import { classes } from "./classes";
import { Keys } from "./Keys";

type Look = "primary" | "plain" | "quiet" | "danger";

const looks: Record<Look, string> = {
  primary: "bg-accent text-accent-ink hover:bg-accent-hover border border-transparent shadow-sm",
  plain: "bg-raised text-ink border border-line-strong/70 hover:bg-hover",
  quiet: "text-ink-soft hover:text-ink hover:bg-hover border border-transparent",
  danger: "bg-danger-soft text-danger border border-danger/30 hover:border-danger/60",
};

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: Look;
  size?: "small" | "normal" | "large";
  icon?: ReactNode;
}

const sizes = {
  small: "h-6 px-2 text-xs gap-1 rounded-md",
  normal: "h-7.5 px-3 text-[0.8125rem] gap-1.5 rounded-lg",
  large: "h-10 px-4 text-sm gap-2 rounded-lg",
};

export function Button({ look = "plain", size = "normal", icon, className, children, ...rest }: Props) {
  return (
    <button
      type="button"
      className={classes(
        "inline-flex shrink-0 items-center justify-center font-medium whitespace-nowrap transition-colors select-none",
        "disabled:pointer-events-none disabled:opacity-50",
        looks[look],
        sizes[size],
        className,
      )}
      {...rest}
    >
      {icon}
      {children}
    </button>
  );
}

interface IconProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  /** The accessible name, which is also the tooltip. */
  label: string;
  keys?: string | undefined;
  pressed?: boolean;
  size?: "small" | "normal";
  side?: "top" | "right" | "bottom" | "left";
}

/** A button that is an icon; its label is its tooltip. */
export function IconButton({ label, keys, pressed, size = "normal", side = "bottom", className, ...rest }: IconProps) {
  return (
    <Hint label={label} keys={keys} side={side}>
      <button
        type="button"
        aria-label={label}
        {...(pressed === undefined ? {} : { "aria-pressed": pressed })}
        className={classes(
          "inline-flex shrink-0 items-center justify-center rounded-md transition-colors select-none",
          "disabled:pointer-events-none disabled:opacity-40",
          size === "small" ? "size-6" : "size-7.5",
          pressed ? "bg-accent-soft text-accent" : "text-ink-soft hover:bg-hover hover:text-ink",
          className,
        )}
        {...rest}
      />
    </Hint>
  );
}

interface HintProps {
  label: string;
  keys?: string | undefined;
  side?: "top" | "right" | "bottom" | "left";
  children: ReactNode;
}

/** A tooltip. */
export function Hint({ label, keys, side = "bottom", children }: HintProps) {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger asChild>{children}</Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Content
          side={side}
          sideOffset={6}
          collisionPadding={8}
          className="appear z-50 flex items-center gap-2 rounded-md bg-ink px-2 py-1 text-xs text-canvas shadow-pop"
        >
          {label}
          {keys && <Keys keys={keys} inverted />}
        </Tooltip.Content>
      </Tooltip.Portal>
    </Tooltip.Root>
  );
}
