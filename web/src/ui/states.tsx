/** Placeholders for a part that is empty, loading or failed. */

import { LoaderCircle } from "lucide-react";
import type { ReactNode } from "react";
import { explain } from "../api/http";
import { Button } from "./Button";

export function Spinner({ size = 14 }: { size?: number }) {
  return <LoaderCircle size={size} className="animate-spin" aria-hidden="true" />;
}

interface EmptyProps {
  icon?: ReactNode;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}

export function Empty({ icon, title, children, action }: EmptyProps) {
  return (
    <div className="flex h-full flex-col items-center justify-center gap-2 p-6 text-center">
      {icon && <div className="mb-1 text-ink-faint">{icon}</div>}
      <p className="font-medium text-ink-soft">{title}</p>
      {children && <div className="max-w-72 text-xs text-ink-faint">{children}</div>}
      {action && <div className="mt-2">{action}</div>}
    </div>
  );
}

export function Loading({ label }: { label: string }) {
  return (
    <div role="status" className="flex h-full items-center justify-center gap-2 text-ink-faint">
      <Spinner /> {label}
    </div>
  );
}

export function Failed({ problem, retry }: { problem: unknown; retry?: () => void }) {
  const { message, hint } = explain(problem);
  return (
    <div role="alert" className="flex h-full flex-col items-center justify-center gap-1.5 p-6 text-center">
      <p className="font-medium text-danger">{message}</p>
      {hint && <p className="max-w-80 text-xs text-ink-soft">{hint}</p>}
      {retry && (
        <Button className="mt-2" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}
