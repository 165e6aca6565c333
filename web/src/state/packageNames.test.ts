import { describe, expect, it } from "vitest";
import type { FoundPackageAnswer, PackageAnswer } from "../api/schema";
import { groupsOf, offersOf, searchText, typedPackage } from "./packageNames";

const has = (name: string, version: string, source: PackageAnswer["source"] = "sandbox", language: PackageAnswer["language"] = "python"): PackageAnswer => ({
  name, version, language, source, size: null,
});
const found = (name: string, version: string, language: PackageAnswer["language"] = "python"): FoundPackageAnswer => ({
  name, version, summary: `About ${name}`, language, installed: null,
});

describe("a package as a person types it", () => {
  it.each([
    ["polars", "python", "polars", false],
    ["  humanize==4.9.0 ", "python", "humanize", true],
    ["httpx >= 0.27, < 1", "python", "httpx", true],
    ["uvicorn[standard]", "python", "uvicorn", true],
    ["zope.interface~=6.0", "python", "zope.interface", true],
    ["lodash@4", "javascript", "lodash", true],
    ["@types/node", "javascript", "@types/node", false],
    ["@types/node@^20.1", "javascript", "@types/node", true],
  ] as const)("%s in %s", (text, language, name, hasVersion) => {
    expect(typedPackage(text, language)).toEqual({ name, requirement: text.trim(), hasVersion });
  });

  it.each([["read pdf files", "python"], ["", "python"], ["@types", "javascript"], ["humanize==4.9.0", "javascript"]] as const)("%j names none in %s", (text, language) => {
    expect(typedPackage(text, language)).toBeNull();
  });

  it("is searched for without its version, and words as they are", () => {
    expect(searchText("humanize==4.9.0", "python")).toBe("humanize");
    expect(searchText(" read pdf ", "python")).toBe("read pdf");
  });
});

describe("the installed packages", () => {
  const all = [has("scikit-learn", "1.5", "environment"), has("humanize", "4.9.0"), has("lodash", "4.18.1", "environment", "javascript")];

  it("are those of one language, the sandbox's apart from the environment's", () => {
    const { own, shared } = groupsOf(all, "python", "");
    expect([own, shared].map((group) => group.map((one) => one.name))).toEqual([["humanize"], ["scikit-learn"]]);
  });

  it.each([["SciKit_L", ["scikit-learn"]], ["humanize==4", ["humanize"]], ["nothing", []]])("are found by %s", (text, names) => {
    const { own, shared } = groupsOf(all, "python", text);
    expect([...own, ...shared].map((one) => one.name)).toEqual(names);
  });
});

describe("what is offered", () => {
  const names = (offers: { requirement: string }[]) => offers.map((one) => one.requirement);

  it("are the packages that were found, with the version that the sandbox has", () => {
    const offers = offersOf("scikit", "python", [found("scikit-learn", "1.7")], [has("scikit_learn", "1.5", "environment")], true);
    expect(offers).toEqual([{ name: "scikit-learn", requirement: "scikit-learn", version: "1.7", summary: "About scikit-learn", installed: "1.5" }]);
  });

  it("is first of all the version that was typed, once", () => {
    const offers = offersOf("humanize==4.9.0", "python", [found("humanize", "4.17.0"), found("human", "1")], [has("humanize", "4.10.0")], true);
    expect(names(offers)).toEqual(["humanize==4.9.0", "human"]);
    expect(offers[0]).toMatchObject({ version: "4.9.0", summary: "About humanize", installed: null });
  });

  it("is not offered again once the sandbox has that very version", () => {
    expect(offersOf("humanize==4.9.0", "python", [], [has("humanize", "4.9.0")], true)[0]).toMatchObject({ installed: "4.9.0" });
    expect(offersOf("humanize>=4.9.0", "python", [], [has("humanize", "4.9.0")], true)[0]).toMatchObject({ version: ">=4.9.0", installed: null });
    expect(offersOf("lodash@4.17.21", "javascript", [], [has("lodash", "4.17.21", "sandbox", "javascript")], true)[0]).toMatchObject({ installed: "4.17.21" });
  });

  it("is what was typed while the index does not answer, and nothing when it knows no such package", () => {
    expect(names(offersOf("private-tool", "python", [], [], false))).toEqual(["private-tool"]);
    expect(names(offersOf("private-tool", "python", [], [], true))).toEqual([]);
  });
});
