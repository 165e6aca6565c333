import { Ban, Check, Globe, GlobeLock, RefreshCw, X } from "lucide-react";
import { useEffect, useState, type FormEvent } from "react";
import type { NetworkAttemptAnswer, NetworkPolicyAnswer } from "../../api/schema";
import { bytes, seconds } from "../../state/format";
import { visible } from "../../state/names";
import { allow, choosePreset, network, refresh, takeBack, watchNetwork, withoutPresets } from "../../state/network";
import { covers, inWords, isPreset } from "../../state/networkRules";
import { useStore } from "../../state/store";
import { attempt } from "../../state/toasts";
import { Button, IconButton } from "../../ui/Button";
import { classes } from "../../ui/classes";
import { focusNext } from "../../ui/focusNext";
import { Pane } from "../../ui/Pane";
import { Empty, Failed, Loading } from "../../ui/states";
import { walk } from "../../ui/walk";

/** What the sandbox may reach, and every attempt to reach a host. */
export function NetworkPanel() {
  const { phase, problem, policy, attempts } = useStore(network, (all) => all);
  useEffect(watchNetwork, []);
  return (
    <Pane
      title="Network"
      actions={
        <IconButton label="Refresh" size="small" onClick={() => attempt(refresh)}>
          <RefreshCw size={13} />
        </IconButton>
      }
    >
      {phase === "failed" ? (
        <Failed problem={problem} retry={() => attempt(refresh)} />
      ) : policy === null ? (
        <Loading label="Loading the network policy" />
      ) : (
        <div className="flex h-full flex-col">
          <Policy policy={policy} />
          <Attempts attempts={attempts} policy={policy} />
        </div>
      )}
    </Pane>
  );
}

const choices = { none: "Nothing", packages: "Package indexes", public: "The internet", own: "Hosts that I name" } as const;

type Choice = keyof typeof choices;

function choiceOf(rules: string[]): Choice {
  if (rules.length === 0) return "none";
  const [first] = rules;
  return rules.length === 1 && (first === "packages" || first === "public") ? first : "own";
}

const isWithin = (choice: string, bound: string[]): boolean => !isPreset(choice) || bound.includes(choice) || bound.includes("public");

function Policy({ policy }: { policy: NetworkPolicyAnswer }) {
  const { requested, bound, effective, lost_secrets: lost } = policy;
  const [isOwn, setOwn] = useState(false);
  const choice = choiceOf(requested.allow);
  const chosen = isOwn && choice === "none" ? "own" : choice; // before the first host is named
  const secrets = Object.keys(effective.secrets);
  const choose = (wanted: Choice) => {
    setOwn(wanted === "own");
    attempt(() => (wanted === "own" ? withoutPresets() : choosePreset(wanted)));
  };
  return (
    <div className="flex max-h-[60%] shrink-0 flex-col gap-2 overflow-y-auto border-b border-line p-2.5">
      <p role="status" className="text-xs text-ink-soft">
        {inWords(effective)}
      </p>
      {bound.allow.length === 0 ? (
        <p className="text-2xs text-ink-faint">The operator of this server, or your key, allows no network.</p>
      ) : (
        <>
          <label className="flex items-center gap-2 text-2xs text-ink-faint">
            Allow
            <select
              value={chosen}
              onChange={(event) => choose(event.target.value as Choice)}
              className="h-7 min-w-0 flex-1 rounded-md border border-line-strong/60 bg-sunken px-1.5 text-xs text-ink outline-none focus:border-accent"
            >
              {Object.entries(choices).map(([name, label]) => (
                <option key={name} value={name} disabled={!isWithin(name, bound.allow)}>
                  {label}
                </option>
              ))}
            </select>
          </label>
          <AddHost />
          {!bound.allow.includes("public") && (
            <p className="text-2xs break-words text-ink-faint">The operator of this server, or your key, allows at most {bound.allow.map(visible).join(", ")}.</p>
          )}
        </>
      )}
      {requested.allow.length > 0 && (
        <ul aria-label="Allowed" className="flex flex-wrap gap-1">
          {requested.allow.map((rule) => (
            <li key={rule} className="flex max-w-full items-center gap-0.5 rounded-md bg-sunken pl-2 font-mono text-2xs">
              <span className="truncate" title={visible(rule)}>
                {visible(rule)}
              </span>
              <IconButton label={`Stop allowing ${visible(rule)}`} size="small" onClick={(event) => attempt(focusNext(event.currentTarget, () => takeBack(rule)))}>
                <X size={11} />
              </IconButton>
            </li>
          ))}
        </ul>
      )}
      {effective.deny.length > 0 && <p className="text-2xs break-words text-ink-soft">Denied: {effective.deny.map(visible).join(", ")}</p>}
      <Amounts policy={policy} />
      {secrets.length > 0 && <p className="text-2xs break-words text-ink-soft">Secrets: {secrets.map(visible).join(", ")}. Programs use them without seeing them.</p>}
      {lost.length > 0 && (
        <p className="text-2xs break-words text-warn">The secrets {lost.map(visible).join(", ")} are not kept with the files. Send them again over the API.</p>
      )}
    </div>
  );
}

function Amounts({ policy: { effective } }: { policy: NetworkPolicyAnswer }) {
  const parts = [
    ...(effective.rate === null ? [] : [`${bytes(effective.rate)} per second`]),
    ...(effective.bytes === null ? [] : [`${bytes(effective.bytes)} in total`]),
  ];
  return parts.length > 0 ? <p className="text-2xs text-ink-soft">At most {parts.join(", ")}.</p> : null;
}

function AddHost() {
  const [host, setHost] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const rule = host.trim();
    if (rule) attempt(async () => (await allow(rule), setHost("")));
  };
  return (
    <form onSubmit={submit} className="flex gap-1.5">
      <input
        value={host}
        onChange={(event) => setHost(event.target.value)}
        aria-label="Host to allow"
        placeholder="host or *.host:port"
        maxLength={300}
        spellCheck={false}
        autoComplete="off"
        autoCapitalize="none"
        className="h-7 min-w-0 flex-1 rounded-md border border-line-strong/60 bg-sunken px-2 font-mono text-2xs outline-none placeholder:text-ink-faint focus:border-accent"
      />
      <Button type="submit" className="h-7" disabled={!host.trim()}>
        Add
      </Button>
    </form>
  );
}

function Attempts({ attempts, policy }: { attempts: NetworkAttemptAnswer[]; policy: NetworkPolicyAnswer }) {
  const rules = policy.requested.allow;
  if (attempts.length === 0) {
    return (
      <div className="min-h-0 flex-1">
        <Empty icon={rules.length > 0 ? <Globe size={22} /> : <GlobeLock size={22} />} title="No connections yet">
          {rules.length > 0
            ? "Every host that a program tries to reach appears here."
            : policy.bound.allow.length > 0
              ? "Allow a host above. Then every host that a program tries to reach appears here."
              : "Pass the data that programs need in as files."}
        </Empty>
      </div>
    );
  }
  return (
    <ul aria-label="Attempts, latest first" tabIndex={0} onKeyDown={walk} className="min-h-0 flex-1 overflow-y-auto p-1.5">
      {attempts.toReversed().map((one) => (
        <Row key={one.number} attempt={one} isAllowedNow={rules.some((rule) => covers(rule, one.host, one.port))} />
      ))}
    </ul>
  );
}

function Row({ attempt: one, isAllowedNow }: { attempt: NetworkAttemptAnswer; isAllowedNow: boolean }) {
  const isRefused = one.verdict === "refused";
  const details = [
    new Date(one.time * 1000).toLocaleTimeString(),
    ...(isRefused ? [] : [`${bytes(one.bytes_up)} up`, `${bytes(one.bytes_down)} down`, seconds(one.duration), ...(one.rule ? [`by ${visible(one.rule)}`] : [])]),
    ...(one.reason ? [visible(one.reason)] : []),
  ];
  return (
    <li className={classes("mb-0.5 flex items-start gap-2 rounded-lg px-2 py-1", isRefused && "bg-danger-soft/60")}>
      <span className={classes("mt-0.5 shrink-0", isRefused ? "text-danger" : "text-accent")}>
        {isRefused ? <Ban size={13} role="img" aria-label="refused" /> : <Check size={13} role="img" aria-label="allowed" />}
      </span>
      <div className="min-w-0 flex-1">
        <p className="font-mono text-xs wrap-anywhere">
          {visible(one.host)}:{one.port}
        </p>
        <div className="flex items-start gap-2">
          <p className="min-w-0 flex-1 text-2xs break-words text-ink-soft tabular-nums">{details.join(", ")}</p>
          {one.allow && !isAllowedNow && (
            <Button
              size="small"
              data-walk
              aria-label={`Allow ${visible(one.allow)}`}
              onClick={(event) => attempt(focusNext(event.currentTarget, () => allow(one.allow)))}
            >
              Allow
            </Button>
          )}
        </div>
      </div>
    </li>
  );
}
