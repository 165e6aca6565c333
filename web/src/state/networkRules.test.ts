import { describe, expect, it } from "vitest";
import type { NetworkSettingsAnswer } from "../api/schema";
import { covers, inWords } from "./networkRules";

const policy = (allow: string[], deny: string[] = []): NetworkSettingsAnswer => ({
  allow, deny, rate: null, bytes: null, connections: 256, secrets: {}, headers: {}, dns: "fake",
});

describe("a rule of a network policy", () => {
  it.each([
    ["a.example.org", "a.example.org", 443, true],
    ["a.example.org", "a.example.org", 8443, false],
    ["a.example.org:8443", "a.example.org", 8443, true],
    ["*.example.org", "a.example.org", 80, true],
    ["*.example.org", "example.org", 80, false],
    ["*.example.org:5432", "a.example.org", 5432, true],
    ["*", "a.example.org", 80, true],
    ["*:8443", "a.example.org", 80, false],
    ["public", "a.example.org", 5432, true],
    ["public", "a.example.org", 8080, false],
    ["packages", "index.example.org", 443, false], // only the server knows the indexes
    ["93.184.216.34/32", "93.184.216.34", 80, true],
    ["93.184.216.34/32:8080", "93.184.216.34", 8080, true],
    ["2001:db8::1/128", "2001:db8::1", 443, true],
    ["[2001:db8::1]/128:8443", "2001:db8::1", 8443, true],
  ])("%s covers %s on port %d: %s", (rule, host, port, isCovered) => {
    expect(covers(rule, host, port)).toBe(isCovered);
  });
});

describe("a network policy in a sentence", () => {
  it.each([
    [[], "nothing"],
    [["public"], "every public host on the usual ports"],
    [["packages", "a.example.org"], "the package indexes of pip, npm, Go and Cargo and a.example.org"],
    [["a.example.org", "b.example.org"], "a.example.org and b.example.org"],
    [["a.org", "b.org", "c.org", "d.org"], "4 hosts or ranges"],
    [["*", "a.example.org:8443"], "every host on the ports 80 and 443 and a.example.org:8443"],
    [["*:8443"], "every host on port 8443"],
  ])("%j: %s", (allow, said) => {
    expect(inWords(policy(allow))).toBe(`Programs in this sandbox can reach ${said}.`);
  });

  it("says that something is denied", () => {
    expect(inWords(policy(["public"], ["a.org"]))).toBe("Programs in this sandbox can reach every public host on the usual ports, but not what is denied.");
  });
});
