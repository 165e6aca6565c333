// Written by scripts/page_types.py from src/cloche/model/wording.py. Do not edit.

const WORDS: readonly (readonly [string, string])[] = [
  ["POST /v1/sandboxes/{id}/resume", "the start page"],
  ["\"language\": \"sqlite\"", "SQLite"],
  ["\"interactive\": true", "an empty “Standard input” in Run options"],
  ["PUT \u2026/files/{path}", "the panel Files"],
  ["GET /v1/workspaces", "The server"],
  ["GET \u2026/checkpoints", "The timeline"],
  ["\"language\": \"sql\"", "SQL"],
  ["GET /v1/runs/{id}", "The server"],
  ["GET /v1/sandboxes", "The server"],
  ["`build_timeout`", "“Time for compilers” in Limits of this sandbox"],
  ["POST \u2026/contexts", "a new branch"],
  ["POST \u2026/commands", "“As a program” in Run options"],
  ["GET \u2026/contexts", "The server"],
  ["POST \u2026/restart", "“Restart the session”"],
  ["GET /v1/shares", "The server"],
  ["GET \u2026/commands", "The server"],
  ["`checkpoints`", "a new session"],
  ["POST /v1/keys", "the HTTP interface"],
  ["\"undo\": true", "a new session"],
  ["GET /v1/runs", "The server"],
  ["GET /v1/keys", "The server"],
  ["`processes`", "“Processes” in Limits of this sandbox"],
  ["`isolation`", "the isolation"],
  ["`timeout`", "“Time limit” in Run options"],
  ["`api_key`", "a key"],
  ["`network`", "“Allow” in the panel Network"],
  ["`memory`", "“Memory” in Limits of this sandbox"],
  ["`output`", "“Output” in Limits of this sandbox"],
  ["`stdin`", "“Standard input” in Run options"],
  ["`disk`", "“Disk” in Limits of this sandbox"],
  ["`cpu`", "“CPU” in Limits of this sandbox"],
  ["`url`", "its address"],
];

/** A text of the server in the words of the page: it names the fields of requests where the page has labels. */
export const worded = (text: string): string =>
  WORDS.reduce((now, [from, to]) => now.replaceAll(from, to), text).replace(/(?:network=|"network": )\["([^"\]]+)"\]/g, "“Allow” in the panel Network");
