import { Tooltip } from "radix-ui";
import { Suspense, useEffect, useState } from "react";
import { app, enter, takeRefusal } from "../state/app";
import { listenForKeys } from "../state/commands";
import { close, idInAddress, open, sandbox } from "../state/sandbox";
import { useStore } from "../state/store";
import { Failed, Loading } from "../ui/states";
import { Bell } from "../ui/Bell";
import { Toasts } from "../ui/Toasts";
import { lazily } from "../ui/lazily";
import { Welcome } from "../parts/welcome/Welcome";
import { complain } from "../state/toasts";
import "../state/unnamed";
import { SignIn } from "./SignIn";
import { Workbench } from "./Workbench";

/** Shows the sign-in, the start page or a sandbox. */
export function App() {
  const access = useStore(app, (state) => state.access);
  const [problem, setProblem] = useState<unknown>(null);
  const begin = () => {
    setProblem(null);
    enter().catch((failure: unknown) => {
      if (app.get().access !== "refused") setProblem(failure);
    });
  };
  useEffect(() => {
    begin();
    return listenForKeys();
  }, []);
  return (
    <Tooltip.Provider delayDuration={350} skipDelayDuration={200}>
      {access === "granted" ? (
        <Inside />
      ) : access === "refused" ? (
        <SignIn />
      ) : problem ? (
        <Failed problem={problem} retry={begin} />
      ) : (
        <div className="flex h-full items-center justify-center text-accent" role="status" aria-label="Loading">
          <span className="breathe">
            <Bell size={36} />
          </span>
        </div>
      )}
      <Toasts />
    </Tooltip.Provider>
  );
}

const KeysPage = lazily(() => import("../parts/keys/KeysPage"));

const inKeys = (): boolean => location.hash === "#/keys";

function Inside() {
  const phase = useStore(sandbox, (state) => state.phase);
  const [isKeys, setKeys] = useState(inKeys);
  useEffect(() => {
    if (takeRefusal()) complain(new Error("The key in the address is wrong or was revoked. This browser is still signed in with another one."));
    const follow = () => {
      setKeys(inKeys());
      const id = idInAddress();
      if (id === null) close();
      else if (sandbox.get().record?.id !== id) void open(id);
    };
    follow();
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  if (isKeys) {
    return (
      <Suspense fallback={<Loading label="Loading" />}>
        <KeysPage />
      </Suspense>
    );
  }
  return phase === "none" && idInAddress() === null ? <Welcome /> : <Workbench />;
}
