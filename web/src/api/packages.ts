/** Requests about packages: those of a sandbox, and those of the package index. */

import { of } from "./cloche";
import { getJson, sendJson } from "./http";
import type { InstallAnswer, InstallBody, PackageAnswer, PageOfPackageAnswer, RemovedAnswer, SearchAnswer } from "./schema";

export type PackageLanguage = PackageAnswer["language"];

const ofSandbox = (id: string): string => `${of(id)}/packages`;

/** All packages that programs of a sandbox can import. */
export async function packages(id: string): Promise<PackageAnswer[]> {
  const all: PackageAnswer[] = [];
  for (let after: string | null = ""; after !== null; ) {
    const page: PageOfPackageAnswer = await getJson(`${ofSandbox(id)}${after && `?${new URLSearchParams({ after })}`}`);
    all.push(...page.items);
    after = page.next;
  }
  return all;
}

export const installPackages = (id: string, body: InstallBody): Promise<InstallAnswer> => sendJson("POST", ofSandbox(id), body);
export const removePackage = (id: string, name: string, language: PackageLanguage): Promise<RemovedAnswer> =>
  sendJson("DELETE", `${ofSandbox(id)}?${new URLSearchParams({ name, language })}`);
export const searchPackages = (text: string, language: PackageLanguage, signal: AbortSignal): Promise<SearchAnswer> =>
  getJson(`/v1/packages/search?${new URLSearchParams({ q: text, language })}`, signal);
