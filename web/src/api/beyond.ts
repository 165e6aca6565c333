/** Requests beyond runs and files: checkpoints, templates, shared links, rates. */

import { of } from "./cloche";
import { getJson, request, sendJson } from "./http";
import type {
  ComparedAnswer,
  ContextAnswer,
  PortAddress,
  RatesAnswer,
  RowsAnswer,
  RowsBody,
  ShareAnswer,
  ShareBody,
  TemplateAnswer,
  TemplateSummary,
  VariableListAnswer,
} from "./schema";

interface Items<T> {
  items: T[];
  next: string | null;
}

// --- tables

/** Rows of a table that a run displayed, or of a file. */
export async function tableRows(id: string, body: RowsBody, signal: AbortSignal): Promise<RowsAnswer> {
  const headers = { "Content-Type": "application/json" };
  const response = await request(`${of(id)}/tables/rows`, { method: "POST", headers, body: JSON.stringify(body), signal });
  return (await response.json()) as RowsAnswer;
}

// --- going back

/** Compares two checkpoints; null is the current state. */
export const compare = (id: string, before: string | null, after: string | null): Promise<ComparedAnswer> =>
  sendJson("POST", `${of(id)}/compare`, { before, after });
/** Creates a context that continues from a checkpoint. */
export const fork = (id: string, checkpoint: string): Promise<ContextAnswer> => sendJson("POST", `${of(id)}/fork`, { checkpoint });
export const removeCheckpoint = (id: string, checkpoint: string): Promise<void> =>
  sendJson("DELETE", `${of(id)}/checkpoints/${encodeURIComponent(checkpoint)}`);
export const removeContext = (id: string, context: string): Promise<void> =>
  sendJson("DELETE", `${of(id)}/contexts/${encodeURIComponent(context)}`);

// --- variables

/** The variables of a context whose names contain a text, or the one with this name, with more of its value. */
export const variables = (id: string, context: string, wanted: { search?: string; name?: string }): Promise<VariableListAnswer> =>
  getJson(`${of(id)}/contexts/${encodeURIComponent(context)}/variables?${new URLSearchParams(wanted)}`);

// --- servers inside

/** Makes an address for a port, which needs no key. */
export const portAddress = (id: string, port: number, ttl: number): Promise<PortAddress> => sendJson("POST", `${of(id)}/ports/${port}`, { ttl });

// --- sharing

export const share = (body: ShareBody): Promise<ShareAnswer> => sendJson("POST", "/v1/shares", body);
export const shares = async (): Promise<ShareAnswer[]> => (await getJson<Items<ShareAnswer>>("/v1/shares?limit=200")).items;
export const revokeShare = (id: string): Promise<void> => sendJson("DELETE", `/v1/shares/${encodeURIComponent(id)}`);

// --- the server

export const templates = async (): Promise<TemplateSummary[]> => (await getJson<Items<TemplateSummary>>("/v1/templates")).items;
export const template = (name: string): Promise<TemplateAnswer> => getJson(`/v1/templates/${encodeURIComponent(name)}`);
export const rates = (): Promise<RatesAnswer> => getJson("/v1/rates");
export const removeWorkspace = (id: string): Promise<void> => sendJson("DELETE", `/v1/workspaces/${encodeURIComponent(id)}`);
