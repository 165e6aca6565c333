/** The only access to the server: requests with the browser's cookie, typed answers, errors as `ApiProblem`. */

import type { ProblemAnswer } from "./schema";
import { worded } from "./words";

/** Why a request failed; `status` 0 means that the server was not reached. */
export class ApiProblem extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    message: string,
    readonly hint: string,
    readonly details: Record<string, unknown> = {},
  ) {
    super(message);
    this.name = "ApiProblem";
  }

  get isOffline(): boolean {
    return this.status === 0;
  }
}

type Listener = (reached: boolean, signedIn: boolean) => void;
const listeners = new Set<Listener>();

/** Called after every request: was the server reached, and does it accept our key? */
export function onContact(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function contact(reached: boolean, signedIn: boolean): void {
  for (const listener of listeners) listener(reached, signedIn);
}

/** Sends a request; anything but success is thrown as an `ApiProblem`. */
export async function request(path: string, options: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, options);
  } catch (problem) {
    if (problem instanceof DOMException && problem.name === "AbortError") throw problem;
    contact(false, true);
    throw new ApiProblem(0, "offline", "The server cannot be reached.", "The page keeps trying to reconnect.");
  }
  contact(true, response.status !== 401);
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function problemOf(response: Response): Promise<ApiProblem> {
  try {
    const { error } = (await response.json()) as ProblemAnswer;
    return new ApiProblem(response.status, error.kind, worded(error.message), worded(error.hint ?? ""), error.details);
  } catch {
    return new ApiProblem(response.status, "failed", `The server answered ${response.status}.`, "");
  }
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await request(path, signal ? { signal } : {});
  return (await response.json()) as T;
}

/** Sends and receives JSON; returns `undefined` if the answer has no body. */
export async function sendJson<T>(method: "POST" | "PUT" | "PATCH" | "DELETE", path: string, body?: unknown): Promise<T> {
  const options: RequestInit = { method };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  const response = await request(path, options);
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

/** Turns anything that was thrown into a message for a person. */
export function explain(problem: unknown): { message: string; hint: string } {
  if (problem instanceof ApiProblem) return { message: problem.message, hint: problem.hint };
  return { message: problem instanceof Error ? problem.message : String(problem), hint: "" };
}

/** A path inside the sandbox as a part of an address. */
export function encodePath(path: string): string {
  return path.startsWith("/") ? encodeURIComponent(path) : path.split("/").map(encodeURIComponent).join("/");
}
