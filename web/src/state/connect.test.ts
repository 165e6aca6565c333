import { describe, expect, it } from "vitest";
import { forE2b, hidden, platformOf, waysOf } from "./connect";

const KEY = "cloche_abc-DEF_123";

describe("how clients are connected", () => {
  it("puts the address and the key into every text", () => {
    for (const way of waysOf("linux")) {
      for (const step of way.steps) {
        const text = step.text("https://code.example", KEY);
        expect(text).toContain("https://code.example");
        expect(text.includes(KEY) || text.includes(forE2b(KEY))).toBe(true);
        expect(text).not.toMatch(/\{url\}|\{key\}/);
        if (text.startsWith("{")) expect(() => JSON.parse(text) as unknown).not.toThrow();
      }
    }
  });

  it("names the file where the client of this system looks", () => {
    const place = (platform: "mac" | "windows" | "linux", id: string) => waysOf(platform).find((way) => way.id === id)?.steps[0]?.where;
    expect(place("mac", "claude")).toContain("~/Library/Application Support/Claude/claude_desktop_config.json");
    expect(place("windows", "claude")).toContain("%APPDATA%\\Claude\\claude_desktop_config.json");
    expect(place("linux", "vscode")).toContain("~/.config/Code/User/mcp.json");
    expect(place("windows", "cursor")).toContain("%USERPROFILE%\\.cursor\\mcp.json");
    expect(platformOf("Mozilla/5.0 (Windows NT 10.0; Win64; x64)")).toBe("windows");
  });

  it("writes a key for E2B's clients as the server reads it, and hides what must not be seen", () => {
    expect(forE2b("cloche_é")).toBe("e2b_636c6f6368655fc3a9");
    expect(hidden(KEY)).not.toContain("abc");
    expect(hidden(forE2b(KEY))).not.toContain(forE2b(KEY).slice(8));
  });
});
