import { Ban, Check, Globe, GlobeLock, RefreshCw, X } from "lucide-react";
import { useEffect, useState, type FormEvent } from "react";
import type { NetworkAttemptAnswer, NetworkPolicyAnswer } from "../../api/schema";
import { bytes, seconds } from "../../state/format";
import { visible } from "../../state/names";
import { allow, allowOnly, inWords, network, refresh, ruleFor, takeBack, watchNetwork } from "../../state/network";
import { useStore } from "../../state/store";
import { attempt } from "../../state/toasts";
import { Button, IconButton } from "../../ui/Button";
import { classes } from "../../ui/classes";
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
          <Attempts attempts={attempts} allowed={policy.requested.allow} />
        </div>
      )}
    </Pane>
  );
}

const choices = { none: "Nothing", packages: "Package indexes", public: "The internet", own: "Hosts that I name" } as const;

function choiceOf(rules: string[]): keyof typeof choices {
  if (rules.length === 0) return "none";
  const [first] = rules;
  return rules.length === 1 && (first === "packages" || first === "public") ? first : "own";
}

function Policy({ policy }: { policy: NetworkPolicyAnswer }) {
  const { requested, bound, effective, lost_secrets: lost } = policy;
  const [isOwn, setOwn] = useState(false);
  const chosen = isOwn ? "own" : choiceOf(requested.allow);
  const secrets = Object.keys(effective.secrets);
  const choose = (choice: keyof typeof choices) => {
    setOwn(choice === "own");
    if (choice !== "own") attempt(() => allowOnly(choice === "none" ? [] : [choice]));
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
              onChange={(event) => choose(event.target.value as keyof typeof choices)}
              className="h-7 min-w-0 flex-1 rounded-md border border-line-strong/60 bg-sunken px-1.5 text-xs text-ink outline-none focus:border-accent"
            >
              {Object.entries(choices).map(([name, label]) => (
                <option key={name} value={name}>
                  {label}
                </option>
              ))}
            </select>
          </label>
          <AddHost />
        </>
      )}
      {requested.allow.length > 0 && (
        <ul aria-label="Allowed" className="flex flex-wrap gap-1">
          {requested.allow.map((rule) => (
            <li key={rule} className="flex max-w-full items-center gap-0.5 rounded-md bg-sunken pl-2 font-mono text-2xs">
              <span className="truncate">{visible(rule)}</span>
              <IconButton label={`Stop allowing ${visible(rule)}`} size="small" onClick={() => attempt(() => takeBack(rule))}>
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
        placeholder="api.example.org or *.example.org:8443"
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

function Attempts({ attempts, allowed }: { attempts: NetworkAttemptAnswer[]; allowed: string[] }) {
  const isOpen = allowed.length > 0;
  if (attempts.length === 0) {
    return (
      <div className="min-h-0 flex-1">
        <Empty icon={isOpen ? <Globe size={22} /> : <GlobeLock size={22} />} title="No connections yet">
          {isOpen ? "Every host that a program tries to reach appears here." : "Allow a host above. Then every host that a program tries to reach appears here."}
        </Empty>
      </div>
    );
  }
  return (
    <ul aria-label="Attempts, latest first" onKeyDown={walk} className="min-h-0 flex-1 overflow-y-auto p-1.5">
      {attempts.toReversed().map((one) => (
        <Row key={one.number} attempt={one} isAllowedNow={allowed.includes(ruleFor(one.host, one.port))} />
      ))}
    </ul>
  );
}

function Row({ attempt: one, isAllowedNow }: { attempt: NetworkAttemptAnswer; isAllowedNow: boolean }) {
  const isRefused = one.verdict === "refused";
  const host = `${visible(one.host)}:${one.port}`;
  const rule = ruleFor(one.host, one.port);
  return (
    <li className={classes("flex items-start gap-2 rounded-lg px-2 py-1", isRefused && "bg-danger-soft/60")}>
      <span className={classes("mt-0.5 shrink-0", isRefused ? "text-danger" : "text-accent")}>
        {isRefused ? <Ban size={13} role="img" aria-label="refused" /> : <Check size={13} role="img" aria-label="allowed" />}
      </span>
      <span className="min-w-0 flex-1">
        <span className="block truncate font-mono text-xs" title={host}>
          {host}
        </span>
        <span className="block text-2xs break-words text-ink-soft tabular-nums">
          {new Date(one.time * 1000).toLocaleTimeString()}
          {isRefused ? "" : `, ${bytes(one.bytes_up)} up, ${bytes(one.bytes_down)} down, ${seconds(one.duration)}`}
          {one.rule ? `, by ${visible(one.rule)}` : ""}
          {one.reason ? `, ${visible(one.reason)}` : ""}
        </span>
      </span>
      {isRefused && !isAllowedNow && (
        <Button size="small" data-walk aria-label={`Allow ${visible(rule)}`} onClick={() => attempt(() => allow(rule))}>
          Allow
        </Button>
      )}
    </li>
  );
}
