/** Network rules, as model/network_rules.py reads them, for people. */

import type { NetworkSettingsAnswer } from "../api/schema";
import { visible } from "./names";

const WEB_PORTS = [80, 443];
const PUBLIC_PORTS = [22, 80, 443, 465, 587, 993, 995, 3306, 5432, 6379, 27017];
const MOST_NAMED = 3;

export const isPreset = (rule: string): boolean => rule === "public" || rule === "packages";

/** A rule's host and the ports that it covers. */
function partsOf(rule: string): [host: string, ports: number[]] {
  if (rule === "public") return ["*", PUBLIC_PORTS];
  const found = /^(\[.*\]\/\d+|[^:]*):(\d+)$/.exec(rule);
  return found ? [(found[1] ?? "").replace(/[[\]]/g, ""), [Number(found[2])]] : [rule, WEB_PORTS];
}

/** Whether a rule covers a host; of ranges of addresses only those with a single one. */
export function covers(rule: string, host: string, port: number): boolean {
  const [target, ports] = partsOf(rule);
  if (!ports.includes(port)) return false;
  if (target === "*" || target === host) return true;
  return target.startsWith("*.") ? host.endsWith(target.slice(1)) : target === `${host}/${host.includes(":") ? 128 : 32}`;
}

/** A policy in a sentence. */
export function inWords({ allow: rules, deny }: NetworkSettingsAnswer): string {
  if (rules.length === 0) return "Programs in this sandbox can reach nothing.";
  const parts = [
    ...(rules.includes("public") ? ["every public host on the usual ports"] : []),
    ...(rules.includes("packages") ? ["the package indexes of pip, npm, Go and Cargo"] : []),
  ];
  const others = rules.filter((rule) => !isPreset(rule));
  const anyPorts = others.filter((rule) => partsOf(rule)[0] === "*").flatMap((rule) => partsOf(rule)[1]);
  const named = others.filter((rule) => partsOf(rule)[0] !== "*");
  if (anyPorts.length > 0) parts.push(`every host on ${anyPorts.length === 1 ? "port" : "the ports"} ${listed(anyPorts.map(String))}`);
  if (named.length > MOST_NAMED) parts.push(`${named.length} hosts or ranges`);
  else parts.push(...named.map(visible));
  return `Programs in this sandbox can reach ${listed(parts)}${deny.length > 0 ? ", but not what is denied" : ""}.`;
}

const listed = (parts: string[]): string => (parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : (parts[0] ?? ""));
