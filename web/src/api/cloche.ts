/** What the page asks of the server, one function per request; shapes are in schema.ts, which the server describes. */

import { encodePath, getJson, request, sendJson } from "./http";
import type {
  CellBody,
  CheckpointAnswer,
  CommandAnswer,
  CommandBody,
  ContextAnswer,
  DiskAnswer,
  EntryAnswer,
  LanguageAnswer,
  Listed,
  MomentAnswer,
  NetworkAttemptAnswer,
  NetworkBody,
  NetworkPolicyAnswer,
  RestoredAnswer,
  ResultAnswer,
  RunAnswer,
  SandboxAnswer,
  SandboxBody,
  SandboxChanges,
  UsageAnswer,
  WorkspaceAnswer,
} from "./schema";

interface Items<T> {
  items: T[];
  next: string | null;
}

const events = { Accept: "text/event-stream" };
const json = { "Content-Type": "application/json" };
export const of = (sandbox: string): string => `/v1/sandboxes/${encodeURIComponent(sandbox)}`;

// --- the server

export const version = (): Promise<{ version: string }> => getJson("/v1/version");
export const languages = async (): Promise<LanguageAnswer[]> =>
  (await getJson<Items<LanguageAnswer>>("/v1/languages")).items;

/** Checks a key. It is sent in a header, so that an old cookie does not hide a wrong key. */
export async function isKey(key: string): Promise<boolean> {
  const response = await fetch("/v1/version", { headers: { Authorization: `Bearer ${key}` }, credentials: "omit" });
  return response.ok;
}

// --- sandboxes

export const sandboxes = async (state?: string): Promise<SandboxAnswer[]> =>
  (await getJson<Items<SandboxAnswer>>(`/v1/sandboxes${state ? `?state=${state}` : ""}`)).items;
export const sandbox = (id: string): Promise<SandboxAnswer> => getJson(of(id));
export const createSandbox = (body: SandboxBody): Promise<SandboxAnswer> => sendJson("POST", "/v1/sandboxes", body);
export const changeSandbox = (id: string, changes: SandboxChanges): Promise<SandboxAnswer> =>
  sendJson("PATCH", of(id), changes);
export const killSandbox = (id: string): Promise<void> => sendJson("DELETE", of(id));
export const usage = (id: string): Promise<UsageAnswer> => getJson(`${of(id)}/usage`);
export const workspaces = async (): Promise<WorkspaceAnswer[]> =>
  (await getJson<Items<WorkspaceAnswer>>("/v1/workspaces")).items;
export const workspace = (id: string): Promise<WorkspaceAnswer> => getJson(`/v1/workspaces/${encodeURIComponent(id)}`);

// --- network

export const network = (id: string): Promise<NetworkPolicyAnswer> => getJson(`${of(id)}/network`);
export const replaceNetwork = (id: string, body: NetworkBody): Promise<NetworkPolicyAnswer> =>
  sendJson("PUT", `${of(id)}/network`, body);
/** The attempts with a higher number than `since`, at most a thousand, oldest first. */
export const networkLog = async (id: string, since: number): Promise<NetworkAttemptAnswer[]> =>
  (await getJson<{ items: NetworkAttemptAnswer[] }>(`${of(id)}/network/log?since=${since}`)).items;

// --- runs

/** Starts a cell; the answer is a stream of events, and its header `Cloche-Run` has the run's id. */
export const startCell = (id: string, body: CellBody, signal: AbortSignal): Promise<Response> =>
  request(`${of(id)}/run`, { method: "POST", headers: { ...events, ...json }, body: JSON.stringify(body), signal });
export const runEvents = (run: string): string => `/v1/runs/${encodeURIComponent(run)}/events`;
export const run = (id: string): Promise<RunAnswer> => getJson(`/v1/runs/${encodeURIComponent(id)}`);
export const runs = async (sandbox: string, limit = 20): Promise<RunAnswer[]> =>
  (await getJson<Items<RunAnswer>>(`/v1/runs?sandbox=${encodeURIComponent(sandbox)}&limit=${limit}`)).items;
export const cancelRun = (id: string): Promise<void> => sendJson("POST", `/v1/runs/${encodeURIComponent(id)}/cancel`);
export const writeToRun = (id: string, data: string, eof = false): Promise<void> =>
  sendJson("POST", `/v1/runs/${encodeURIComponent(id)}/input`, { data, eof });
export const interrupt = (id: string, context?: string): Promise<void> =>
  sendJson("POST", `${of(id)}/interrupt`, context ? { context } : {});
export const restart = (id: string, context?: string): Promise<void> =>
  sendJson("POST", `${of(id)}/restart`, context ? { context } : {});
export const contexts = async (id: string): Promise<ContextAnswer[]> =>
  (await getJson<Items<ContextAnswer>>(`${of(id)}/contexts`)).items;

// --- going back

export const history = async (id: string): Promise<MomentAnswer[]> =>
  (await getJson<Items<MomentAnswer>>(`${of(id)}/history?limit=1000`)).items;
export const checkpoints = async (id: string): Promise<CheckpointAnswer[]> =>
  (await getJson<Items<CheckpointAnswer>>(`${of(id)}/checkpoints`)).items;
export const createCheckpoint = (id: string, name: string): Promise<CheckpointAnswer> =>
  sendJson("POST", `${of(id)}/checkpoints`, { name });
export const restoreCheckpoint = (id: string, checkpoint: string): Promise<RestoredAnswer> =>
  sendJson("POST", `${of(id)}/checkpoints/${encodeURIComponent(checkpoint)}/restore`);
export const undo = (id: string): Promise<RestoredAnswer> => sendJson("POST", `${of(id)}/undo`);

// --- files

export const fileAddress = (id: string, path: string): string => `${of(id)}/files/${encodePath(path)}`;
export const archiveAddress = (id: string, path: string): string =>
  `${of(id)}/archive?format=zip&path=${encodeURIComponent(path)}`;
export const listFiles = (id: string, path: string): Promise<Listed> =>
  getJson(`${of(id)}/files?path=${encodeURIComponent(path)}`);
/** All entries in the folders below a folder, to a depth. */
export const listDeep = (id: string, path: string, depth: number, limit: number): Promise<Listed> =>
  getJson(`${of(id)}/files?path=${encodeURIComponent(path)}&depth=${depth}&limit=${limit}`);
export const readFile = (id: string, path: string): Promise<Response> => request(fileAddress(id, path));
export const stat = (id: string, path: string): Promise<EntryAnswer> =>
  getJson(`${of(id)}/stat?path=${encodeURIComponent(path)}`);
export const disk = (id: string): Promise<DiskAnswer> => getJson(`${of(id)}/disk`);
export const removeFile = (id: string, path: string): Promise<void> => sendJson("DELETE", fileAddress(id, path));
export const renameFile = (id: string, path: string, newPath: string): Promise<EntryAnswer> =>
  sendJson("PATCH", fileAddress(id, path), { new_path: newPath });
export const makeFolder = (id: string, path: string): Promise<void> =>
  sendJson("POST", `${of(id)}/folders`, { path });
/** Writes a file; with `expected`, only if the file has the contents of this digest (empty: if there is none), else 412. */
export async function writeFile(id: string, path: string, contents: BodyInit, expected?: string): Promise<EntryAnswer> {
  const condition = expected === undefined ? "" : `?expected=${expected}`;
  const response = await request(fileAddress(id, path) + condition, { method: "PUT", body: contents });
  return (await response.json()) as EntryAnswer;
}
export const watchAddress = (id: string): string => `${of(id)}/watch?path=.&recursive=true`;
export const feedAddress = (id: string): string => `${of(id)}/events`;

// --- commands

export const startCommand = (id: string, body: CommandBody): Promise<CommandAnswer> =>
  sendJson("POST", `${of(id)}/commands`, body);
export const waitForCommand = (id: string, body: CommandBody): Promise<ResultAnswer> =>
  sendJson("POST", `${of(id)}/commands`, { ...body, wait: true });
export const commands = async (id: string): Promise<CommandAnswer[]> =>
  (await getJson<Items<CommandAnswer>>(`${of(id)}/commands`)).items;
const command = (id: string, name: string): string => `${of(id)}/commands/${encodeURIComponent(name)}`;
export const commandEvents = (id: string, name: string): string => `${command(id, name)}/events`;
export const killCommand = (id: string, name: string): Promise<void> => sendJson("DELETE", command(id, name));
export const signalCommand = (id: string, name: string, signal: string): Promise<void> =>
  sendJson("POST", `${command(id, name)}/signal`, { signal });
export const writeToCommand = (id: string, name: string, data: string, eof = false): Promise<void> =>
  sendJson("POST", `${command(id, name)}/stdin`, { data, eof });
