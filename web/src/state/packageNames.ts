/** What a person types about packages: names with versions, and parts of names. */

import type { PackageLanguage } from "../api/packages";
import type { FoundPackageAnswer, PackageAnswer } from "../api/schema";

/** A package as a person has typed it. */
export interface Typed {
  name: string;
  /** With the version or the bounds on it, as the server takes them. */
  requirement: string;
  hasVersion: boolean;
}

const PYTHON = /^([a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(\s*\[[^\]]*\])?\s*((?:===?|[<>!~]=|[<>]).*)?$/i;
const JAVASCRIPT = /^((?:@[a-z0-9][\w.~-]*\/)?[a-z0-9][\w.~-]*)(?:@(.+))?$/i;

/** The package that a text names, or null if it names none: several words are a search. */
export function typedPackage(text: string, language: PackageLanguage): Typed | null {
  const requirement = text.trim();
  const found = (language === "python" ? PYTHON : JAVASCRIPT).exec(requirement);
  const name = found?.[1];
  if (!found || !name) return null;
  return { name, requirement, hasVersion: Boolean(language === "python" ? (found[2] ?? found[3]) : found[2]) };
}

/** The words that the index is searched for: a version is no part of them. */
export const searchText = (text: string, language: PackageLanguage): string => typedPackage(text, language)?.name ?? text.trim();

/** Two spellings of a name that mean one package become the same text. */
export function normalName(name: string, language: PackageLanguage): string {
  return language === "python" ? name.toLowerCase().replace(/[-_.]+/g, "-") : name;
}

export const keyOf = (name: string, language: PackageLanguage): string => `${language}:${normalName(name, language)}`;

/** The packages of one language whose names contain a text, those of the sandbox apart from those of the environment. */
export function groupsOf(all: PackageAnswer[], language: PackageLanguage, text: string): { own: PackageAnswer[]; shared: PackageAnswer[] } {
  const part = normalName(searchText(text, language), language).toLowerCase();
  const shown = all.filter((one) => one.language === language && normalName(one.name, language).toLowerCase().includes(part));
  return { own: shown.filter((one) => one.source === "sandbox"), shared: shown.filter((one) => one.source === "environment") };
}

/** A package that can be installed. */
export interface Offer {
  name: string;
  requirement: string;
  /** The newest version, or the one that was typed; empty if it is not known. */
  version: string;
  summary: string;
  /** The version that the sandbox has. */
  installed: string | null;
}

/**
 * What the search offers. A package with a version, and one that the index could not be asked about, is offered as it
 * was typed.
 */
export function offersOf(text: string, language: PackageLanguage, found: FoundPackageAnswer[], all: PackageAnswer[], isCertain: boolean): Offer[] {
  const has = new Map(all.map((one) => [keyOf(one.name, one.language), one.version]));
  const offers = found
    .filter((one) => one.language === language)
    .map(({ name, version, summary }) => ({ name, requirement: name, version, summary, installed: has.get(keyOf(name, language)) ?? null }));
  const typed = typedPackage(text, language);
  if (!typed) return offers;
  const at = offers.findIndex((one) => keyOf(one.name, language) === keyOf(typed.name, language));
  if (!typed.hasVersion && (at >= 0 || isCertain)) return offers;
  const installed = has.get(keyOf(typed.name, language)) ?? null;
  const version = typed.requirement.slice(typed.name.length).trim().replace(/^(?:===?|@)\s*(?=[\w.+!-]+$)/, "");
  // Whether what is installed is within bounds, only the server knows.
  const isThere = version === "" || version === installed;
  const offer = { name: typed.name, requirement: typed.requirement, version, summary: offers[at]?.summary ?? "", installed: isThere ? installed : null };
  return [offer, ...offers.filter((_, index) => index !== at)];
}
