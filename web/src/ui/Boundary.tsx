import { Component, type ReactNode } from "react";
import { Button } from "./Button";

/** Says so when the page breaks, instead of showing nothing. */
export class Boundary extends Component<{ children: ReactNode }, { problem: unknown }> {
  override state = { problem: null };

  static getDerivedStateFromError(problem: unknown): { problem: unknown } {
    return { problem };
  }

  override render(): ReactNode {
    if (this.state.problem === null) return this.props.children;
    return (
      <div role="alert" className="flex h-full flex-col items-center justify-center gap-2 p-6 text-center">
        <p className="font-medium text-danger">The page could not go on.</p>
        <p className="max-w-80 text-xs text-ink-soft">What you have typed is kept in this browser. Load the page again to continue.</p>
        <Button className="mt-2" look="primary" onClick={() => location.reload()}>
          Load the page again
        </Button>
      </div>
    );
  }
}
