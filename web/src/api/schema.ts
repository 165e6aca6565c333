// Written by scripts/page_types.py from the server's own description (/openapi.json). Do not edit.

/** The answer to a call: a value, or an error. */
export interface AnswerBody {
  value?: unknown;
  error?: Record<string, string> | null;
}

/** A file that the code wrote under /sandbox/output. */
export interface ArtifactAnswer {
  path: string;
  size: number;
  mime: string;
}

/** The outcome of code that was tried, and its changes. */
export interface AttemptAnswer {
  id: string;
  result: ResultAnswer;
  files: FileChangesAnswer;
  variables: VariableChangesAnswer;
}

/** Code to try, and to keep or discard afterwards. */
export interface AttemptBody {
  code: string;
  context?: string | null;
  timeout?: number | null;
}

/** An entry of the audit log. */
export interface AuditAnswer {
  id: string;
  time: number;
  owner: string;
  key: string;
  action: string;
  target: string;
  details: Record<string, unknown>;
}

/** A package that the catalogue has an entry about. */
export interface AuditFindingAnswer {
  name: string;
  version: string;
  language: "python" | "javascript";
  id: string;
  summary: string;
  malicious: boolean;
}

/** Binary data. */
export interface Base64 {
  base64: string;
}

/** The best candidate; `index` is null when none could be kept. */
export interface BestAnswer {
  index: number | null;
  candidates: CandidateAnswer[];
}

/** Candidates of which the best is kept. */
export interface BestBody {
  candidates: string[];
  score?: string | null;
  context?: string | null;
  timeout?: number | null;
}

/** The newest build of an environment on this server. */
export interface BuildAnswer {
  id: string;
  state: "queued" | "building" | "done" | "failed";
  created: number;
  ended: number | null;
  error: BuildProblem | null;
}

/** Why a build failed. */
export interface BuildProblem {
  message: string;
  hint: string;
}

/** A build that has begun; its log is at `/v1/environments/{name}/events`. */
export interface BuildStarted {
  name: string;
  build: BuildAnswer;
}

/** One of several candidates, with its outcome. */
export interface CandidateAnswer {
  code: string;
  result: ResultAnswer;
  score: number | null;
}

/** Code to run in a session. */
export interface CellBody {
  view?: "full" | "model" | null;
  budget?: number | null;
  code: string;
  language?: string | null;
  context?: string | null;
  stdin?: string | null;
  stdin_base64?: string | null;
  env?: Record<string, string> | null;
  timeout?: number | null;
  interactive?: boolean;
  keep?: number | null;
}

/** A checkpoint; `lost` and `note` say what it cannot bring back. */
export interface CheckpointAnswer {
  id: string;
  name: string;
  time: number;
  lost: Record<string, unknown>;
  note: string;
}

/** A new checkpoint. */
export interface CheckpointBody {
  name?: string;
}

/** A command that runs or has ended. */
export interface CommandAnswer {
  id: string;
  pid?: number | null;
  command: string | string[];
  pty: boolean;
  started: number;
  running: boolean;
  exit_code: number | null;
  result?: ResultAnswer | null;
}

/** A command (a shell line or a list of words), or a program in some language. */
export interface CommandBody {
  command?: string | string[] | null;
  code?: string | null;
  entry?: string | null;
  language?: string | null;
  args?: string[];
  build_timeout?: number | null;
  check?: "report" | "block" | "off";
  cwd?: string | null;
  env?: Record<string, string> | null;
  stdin?: boolean | string;
  stdin_base64?: string | null;
  timeout?: number | null;
  pty?: boolean;
  size?: [number, number];
  wait?: boolean;
}

/** Two checkpoints, by id or name; null is the present. */
export interface CompareBody {
  before?: string | null;
  after?: string | null;
  context?: string | null;
}

/** The differences between two checkpoints; `truncated`: more files differ than are listed. */
export interface ComparedAnswer {
  variables: ComparedVariable[];
  files: ComparedFile[];
  truncated: boolean;
}

/** The contents of a file; no text for a binary or a very large file. */
export interface ComparedContents {
  size: number;
  text: string | null;
}

/** A file that differs; its path is relative to /sandbox. */
export interface ComparedFile {
  path: string;
  kind: "created" | "changed" | "removed";
  before: ComparedContents | null;
  after: ComparedContents | null;
}

/** A variable that differs. */
export interface ComparedVariable {
  name: string;
  kind: "created" | "changed" | "removed";
  before: ValueAnswer | null;
  after: ValueAnswer | null;
}

/** A container. */
export interface ContainerAnswer {
  id: string;
  container: string;
  status: string;
  created: number;
  expires: number | null;
}

/** A context. */
export interface ContextAnswer {
  id: string;
  language: string;
  cwd: string | null;
  is_branch: boolean;
}

/** A new context. */
export interface ContextBody {
  language?: string;
  cwd?: string | null;
  env?: Record<string, string> | null;
}

/** One context; null is all of them. */
export interface ContextChoice {
  context?: string | null;
}

/** Whether the folder was created; false when it existed already. */
export interface Created {
  created: boolean;
}

/** The key of the request: what it may do, and how much of its limits is in use. */
export interface CurrentKeyAnswer {
  id: string;
  owner: string;
  name: string;
  scopes: string[];
  limits: Record<string, number>;
  in_use: Record<string, number>;
  network: NetworkSettingsAnswer;
}

/** The use of one day (UTC). */
export interface DayAnswer {
  runs: number;
  cpu_time: number;
  bytes: number;
}

/** A message of a compiler or type checker about a place in the source. */
export interface DiagnosticAnswer {
  file: string;
  line: number;
  column: number;
  message: string;
  severity: string;
  code: string;
}

/** The workspace's file system. */
export interface DiskAnswer {
  total: number;
  free: number;
  inodes: number;
  inodes_free: number;
}

/** Something that the code displayed, by MIME type. */
export interface DisplayAnswer {
  mime: Record<string, unknown>;
  metadata: Record<string, unknown>;
  is_main: boolean;
  display_id: string | null;
}

/** A file, folder or link. */
export interface EntryAnswer {
  path: string;
  kind: string;
  size: number;
  mode: number;
  modified: number;
  target: string | null;
}

/** An environment; without `digest` it has never been built. */
export interface EnvironmentAnswer {
  name: string;
  digest: string | null;
  created: number | null;
  size: number;
  packages: PackageAnswer[];
  imports: string[];
  shared: boolean;
  build: BuildAnswer | null;
}

/** What the server's catalogue knows about an environment. */
export interface EnvironmentAuditAnswer {
  name: string;
  packages: number;
  findings: AuditFindingAnswer[];
  malicious_known: number;
  others_known: number;
  catalogue_age_days: number | null;
}

/** The contents of an environment. */
export interface EnvironmentBody {
  name: string;
  packages?: string[] | PackageLists;
  requirements?: string | null;
  npm?: string[];
  files?: Record<string, string | Base64> | null;
  programs?: string[];
  setup?: string;
  steps?: StepBody[];
  imports?: string[];
  env?: Record<string, string> | null;
  base?: string | null;
  from_lock?: boolean;
  network?: unknown;
}

/** The reason why a run failed. */
export interface ErrorAnswer {
  kind: string;
  message: string;
  hint: string;
  name?: string | null;
  traceback?: string | null;
  traceback_ansi?: string | null;
  raised: RaisedAnswer[];
}

/** The result of a command. */
export interface ExecAnswer {
  stdout: string;
  stderr: string;
  exit_code: number;
  duration: number;
  error: string | null;
}

/** A command (a shell line or a list of words), or the code of a program. */
export interface ExecBody {
  id: string;
  command?: string | string[] | null;
  code?: string | null;
  language?: string;
  timeout?: number | null;
}

/** The files that differ. */
export interface FileChangesAnswer {
  created: string[];
  changed: string[];
  removed: string[];
}

/** A folder to create. */
export interface FolderBody {
  path: string;
}

/** A context that continues from another; `lost` and `note` say what it could not take along. */
export interface ForkAnswer {
  id: string;
  language: string;
  cwd: string | null;
  is_branch: boolean;
  lost: Record<string, unknown>;
  note: string;
}

/** A new context that continues from a checkpoint; null is the present state. */
export interface ForkBody {
  checkpoint?: string | null;
  context?: string | null;
  files?: "shared" | "copy";
}

/** A package of an index. */
export interface FoundPackageAnswer {
  name: string;
  version: string;
  summary: string;
  language: "python" | "javascript";
  installed: string | null;
}

/** A picture as base64. */
export interface ImageAnswer {
  mime: string;
  data: string;
}

/** More standard input for a program. */
export interface InputBody {
  data?: string | null;
  data_base64?: string | null;
  eof?: boolean;
}

/** The outcome of installing packages. */
export interface InstallAnswer {
  packages: PackageAnswer[];
  satisfied: PackageAnswer[];
  warnings: string[];
  restart: string[];
}

/** Packages to install in a sandbox. */
export interface InstallBody {
  packages: string[] | PackageLists;
  language?: "python" | "javascript";
}

/** A key, without its secret, which is shown only once: in the answer that creates it. */
export interface KeyAnswer {
  id: string;
  owner: string;
  name: string;
  scopes: string[];
  policy: Record<string, unknown>;
  limits: Record<string, number>;
  created: number;
  revoked: number | null;
  used: number | null;
  key?: string | null;
}

/** A new key. */
export interface KeyBody {
  owner: string;
  name: string;
  scopes?: string[];
  policy?: Record<string, unknown> | null;
  limits?: Record<string, number> | null;
}

/** The use of a key on the days (2026-01-31) on which it was used. */
export interface KeyUsedAnswer {
  key: string;
  days: Record<string, DayAnswer>;
}

/** A kind of container that can be started. */
export interface KindAnswer {
  name: string;
  description: string;
  languages: string[];
}

/** A language, and whether this server can run it. */
export interface LanguageAnswer {
  name: string;
  title: string;
  aliases: string[];
  extensions: string[];
  programs: boolean;
  sessions: boolean;
  state: "ready" | "old" | "installable" | "unavailable";
  version: string | null;
  hint: string;
  hello: string;
}

/** The limits of a sandbox. */
export interface LimitsAnswer {
  timeout: number | null;
  memory: number;
  cpu: number;
  disk: number;
  processes: number;
  output: number;
  build_timeout: number | null;
}

/** The entries of a folder; `truncated`: there are more than can be listed at once. */
export interface Listed {
  items: EntryAnswer[];
  next: string | null;
  truncated: boolean;
}

/** Whether a program listens on the port. */
export interface Listening {
  port: number;
  listening: boolean;
}

/** A piece of output. */
export interface LogAnswer {
  stream: string;
  text: string;
  time: number;
}

/** The result of a run as a language model should read it. */
export interface ModelAnswer {
  run_id: string;
  view: string;
  text: string;
  images: ImageAnswer[];
  error: ErrorAnswer | null;
  exit_code: number;
  artifacts: ArtifactAnswer[];
}

/** An entry of a session's history. */
export interface MomentAnswer {
  kind: string;
  time: number;
  context: string;
  code: string;
  error: string | null;
  name: string;
}

/** A folder of the host that the sandbox can see. */
export interface MountBody {
  source: string;
  target: string;
  writable?: boolean;
}

/** The bytes that a sandbox sent and received. */
export interface NetworkAnswer {
  sent: number;
  received: number;
}

/** An attempt to reach a host. */
export interface NetworkAttemptAnswer {
  host: string;
  port: number;
  verdict: "allowed" | "refused";
  rule: string;
  reason: string;
  bytes_up: number;
  bytes_down: number;
  duration: number;
  time: number;
  number: number;
  allow: string;
}

/** What a sandbox may reach. */
export interface NetworkBody {
  allow?: string[];
  deny?: string[];
  rate?: number | string | null;
  bytes?: number | string | null;
  connections?: number;
  secrets?: Record<string, SecretBody>;
  headers?: Record<string, Record<string, string>>;
  dns?: "fake" | "real";
}

/** Attempts, oldest first. */
export interface NetworkLogAnswer {
  items: NetworkAttemptAnswer[];
}

/** A sandbox's access to the network: as it was requested, what the caller may ask for, and what is in force. */
export interface NetworkPolicyAnswer {
  requested: NetworkSettingsAnswer;
  bound: NetworkSettingsAnswer;
  effective: NetworkSettingsAnswer;
  lost_secrets: string[];
}

/** What a sandbox may reach. */
export interface NetworkSettingsAnswer {
  allow: string[];
  deny: string[];
  rate: number | null;
  bytes: number | null;
  connections: number;
  secrets: Record<string, SecretAnswer>;
  headers: Record<string, Record<string, string>>;
  dns: "fake" | "real";
}

/** A package that programs of a sandbox can import. */
export interface PackageAnswer {
  name: string;
  version: string;
  language: "python" | "javascript";
  source: "environment" | "sandbox";
  size: number | null;
}

/** Packages by language. */
export interface PackageLists {
  python: string[];
  javascript: string[];
}

/** What a key may install: the operator's policy, narrowed by the key's own. */
export interface PackagePolicyAnswer {
  allow: string[];
  deny: string[];
  versions: Record<string, string>;
  size: number;
  count: number;
  undated: "off" | "warn" | "block";
  min_age_days: number;
  licences: string[];
  hashes: boolean;
  sources: string[];
  scripts: string[];
  catalogue: "off" | "warn" | "block";
  lookalikes: "off" | "warn" | "block";
}

export interface PageOfAuditAnswer {
  items: AuditAnswer[];
  next: string | null;
}

export interface PageOfCheckpointAnswer {
  items: CheckpointAnswer[];
  next: string | null;
}

export interface PageOfCommandAnswer {
  items: CommandAnswer[];
  next: string | null;
}

export interface PageOfContainerAnswer {
  items: ContainerAnswer[];
  next: string | null;
}

export interface PageOfContextAnswer {
  items: ContextAnswer[];
  next: string | null;
}

export interface PageOfEnvironmentAnswer {
  items: EnvironmentAnswer[];
  next: string | null;
}

export interface PageOfKeyAnswer {
  items: KeyAnswer[];
  next: string | null;
}

export interface PageOfKeyUsedAnswer {
  items: KeyUsedAnswer[];
  next: string | null;
}

export interface PageOfKindAnswer {
  items: KindAnswer[];
  next: string | null;
}

export interface PageOfLanguageAnswer {
  items: LanguageAnswer[];
  next: string | null;
}

export interface PageOfMomentAnswer {
  items: MomentAnswer[];
  next: string | null;
}

export interface PageOfPackageAnswer {
  items: PackageAnswer[];
  next: string | null;
}

export interface PageOfPortAnswer {
  items: PortAnswer[];
  next: string | null;
}

export interface PageOfRunAnswer {
  items: RunAnswer[];
  next: string | null;
}

export interface PageOfSandboxAnswer {
  items: SandboxAnswer[];
  next: string | null;
}

export interface PageOfShareAnswer {
  items: ShareAnswer[];
  next: string | null;
}

export interface PageOfTemplateSummary {
  items: TemplateSummary[];
  next: string | null;
}

export interface PageOfWorkspaceAnswer {
  items: WorkspaceAnswer[];
  next: string | null;
}

/** The addresses of a port: on an origin of its own, and below a path of this server. */
export interface PortAddress {
  port: number;
  url: string;
  path: string;
  token: string;
  expires: number;
}

/** A port that a program in the sandbox listens on. */
export interface PortAnswer {
  port: number;
  address: string;
  pid?: number | null;
}

/** The time for which a port can be reached from outside. */
export interface PortBody {
  ttl?: number | null;
}

/** An error: what happened, and what to do about it. */
export interface Problem {
  kind: string;
  message: string;
  hint: string;
  details: Record<string, unknown>;
}

/** The body of every answer that is an error. */
export interface ProblemAnswer {
  error: Problem;
}

/** An exception and its calls, the innermost first; `link` says how it led to the exception before it. */
export interface RaisedAnswer {
  name: string;
  message: string;
  link: string;
  frames: StackFrameAnswer[];
  omitted: number;
}

/** The prices that the operator has set; 0 means free. */
export interface RatesAnswer {
  cpu_hour: number;
  memory_gb_hour: number;
  currency: string;
}

/** The packages that were removed. */
export interface RemovedAnswer {
  removed: string[];
}

/** The new path of a file. */
export interface RenameBody {
  new_path: string;
}

/** The size of a terminal. */
export interface ResizeBody {
  columns: number;
  rows: number;
}

/** The outcome of going back to a checkpoint: what was lost, and which contexts started with no variables. */
export interface RestoredAnswer {
  lost: Record<string, unknown>;
  restarted: string[];
  files: Record<string, unknown>;
  note: string;
}

/** The result of a run. */
export interface ResultAnswer {
  run_id: string;
  stdout: string;
  stderr: string;
  exit_code: number;
  duration: number;
  cpu_time: number;
  memory_peak: number;
  error: ErrorAnswer | null;
  truncated: boolean;
  wall: string;
  results: DisplayAnswer[];
  logs: LogAnswer[];
  artifacts: ArtifactAnswer[];
  execution_count: number | null;
  tool_calls: Record<string, unknown>[];
  restarted: boolean;
  diagnostics: DiagnosticAnswer[];
  build_time: number | null;
  network: NetworkAttemptAnswer[];
  text: string | null;
  context: string;
  stdout_base64?: string | null;
  stderr_base64?: string | null;
}

/** The rows whose value in one column fits; texts are compared without regard to upper and lower case. */
export interface RowFilter {
  column: number;
  how: "contains" | "=" | "!=" | "<" | "<=" | ">" | ">=" | "missing" | "present";
  value: string;
}

/** The labels of the rows; a label of several levels is a list. */
export interface RowLabels {
  names: (string | null)[];
  type: string;
  values: (string | number | boolean | (string | number | boolean | null)[] | null)[];
}

/** The column to sort by; missing values come last. */
export interface RowOrder {
  column: number;
  descending: boolean;
}

/** Rows from `offset` on; there may be fewer than asked for, because an answer has a bounded size. */
export interface RowsAnswer {
  shape: [number, number];
  matched: number;
  offset: number;
  count: number;
  columns?: TableColumn[];
  first_column: number;
  index?: RowLabels | null;
  numbers?: number[];
  rows?: ((string | number | boolean | null)[])[];
  text: string;
  version: string;
  sheets?: string[];
  sheet: string;
  note: string;
}

/** Some rows of one table: of a displayed `table` and the `context` it was displayed in, or of the file at `path`. */
export interface RowsBody {
  table?: string | null;
  context?: string | null;
  path?: string | null;
  sheet?: string | null;
  offset?: number;
  limit?: number;
  columns?: [number, number] | null;
  filters?: RowFilter[];
  search?: string;
  sort?: RowOrder | null;
  form?: "rows" | "csv" | "tsv";
  header?: boolean;
  labels?: boolean;
}

/** The record of a run. */
export interface RunAnswer {
  id: string;
  sandbox: string | null;
  context: string;
  language: string;
  state: string;
  started: number;
  ended: number | null;
  exit_code: number | null;
  error_kind: string | null;
  duration: number;
  cpu_time: number;
  memory_peak: number;
  code_sha256: string;
  result: Record<string, unknown> | null;
}

/** A program to run in a sandbox of its own. */
export interface RunBody {
  view?: "full" | "model" | null;
  budget?: number | null;
  timeout?: number | null;
  memory?: number | string;
  cpu?: number;
  disk?: number | string;
  processes?: number;
  output?: number | string;
  build_timeout?: number | null;
  env?: Record<string, string> | null;
  mounts?: Record<string, string> | MountBody[] | null;
  network?: unknown;
  packages?: string[] | PackageLists | null;
  environment?: string | null;
  isolation?: "auto" | "jail" | "e2b";
  language?: string | null;
  code?: string | null;
  files?: Record<string, string | Base64> | null;
  entry?: string | null;
  stdin?: string | null;
  stdin_base64?: string | null;
  args?: string[];
  check?: "report" | "block" | "off";
  interactive?: boolean;
}

/** A sandbox. */
export interface SandboxAnswer {
  id: string;
  state: string;
  created: number;
  expires: number | null;
  idle_timeout: number | null;
  paused: boolean;
  metadata: Record<string, string>;
  limits: LimitsAnswer;
  wall: string;
  persistent: boolean;
  workspace: string | null;
  ended: number | null;
  reason: string;
}

/** A sandbox that stays alive between requests. */
export interface SandboxBody {
  timeout?: number | null;
  memory?: number | string;
  cpu?: number;
  disk?: number | string;
  processes?: number;
  output?: number | string;
  build_timeout?: number | null;
  env?: Record<string, string> | null;
  mounts?: Record<string, string> | MountBody[] | null;
  network?: unknown;
  packages?: string[] | PackageLists | null;
  environment?: string | null;
  isolation?: "auto" | "jail" | "e2b";
  metadata?: Record<string, string> | null;
  ttl?: number | null;
  idle_timeout?: number | null;
  tools?: string[] | null;
  undo?: boolean;
  checkpoints?: number;
  persistent?: boolean;
  workspace?: string | null;
}

/** Changes of a running sandbox; `ttl` counts from now, and null is the longest that is allowed. */
export interface SandboxChanges {
  ttl?: number | null;
  idle_timeout?: number | null;
  metadata?: Record<string, string> | null;
}

/** The packages that a search has found, the best first. */
export interface SearchAnswer {
  items: FoundPackageAnswer[];
  warnings: string[];
}

/** A secret, without its value. */
export interface SecretAnswer {
  hosts: string[];
  variable: boolean;
  stored: string;
}

/** A value that programs use and never see.  It is sent to its hosts only, in place of the placeholder. */
export interface SecretBody {
  value?: string | null;
  hosts: string[];
  variable?: boolean;
  stored?: string;
}

/** A share; `path` is its link, relative to the server's address, for keys that may share. */
export interface ShareAnswer {
  id: string;
  title: string;
  created: number;
  bytes: number;
  path: string | null;
}

/** Code and output to share. */
export interface ShareBody {
  title: string;
  files?: SharedFile[];
  runs?: SharedRun[];
}

/** The shared code and output. */
export interface SharedDocument {
  title: string;
  files: SharedFile[];
  runs: SharedRun[];
  created: number;
}

/** A file at the time of sharing. */
export interface SharedFile {
  path: string;
  text: string;
}

/** A piece of a run's output. */
export interface SharedPiece {
  type: "stdout" | "stderr" | "display" | "error";
  text: string;
  mime?: Record<string, unknown> | null;
  metadata?: Record<string, unknown> | null;
  error?: ErrorAnswer | null;
}

/** A run and its output, in order. */
export interface SharedRun {
  title: string;
  language: string;
  code: string;
  time: number;
  duration?: number | null;
  memory_peak?: number | null;
  exit_code?: number | null;
  undone: boolean;
  pieces: SharedPiece[];
}

/** A signal, by number or by name. */
export interface SignalBody {
  signal: number | string;
}

/** A call in a traceback; `cell` is the number of the cell where there is no file. */
export interface StackFrameAnswer {
  file: string;
  line: number;
  column: number;
  function: string;
  code: string;
  cell: number | null;
  is_own: boolean;
}

/** The container to start. */
export interface StartBody {
  container?: string;
  timeout?: number | null;
  memory?: number | string;
  env?: Record<string, string> | null;
}

/** The server works. */
export interface StatusAnswer {
  status: "ok";
}

/** One step of a build; exactly one field is given. */
export interface StepBody {
  run?: string | null;
  script?: string | null;
  folder?: string | null;
  env?: Record<string, string> | null;
  files?: Record<string, string | Base64> | null;
}

/** The container to stop. */
export interface StopBody {
  id: string;
}

/** The containers that were stopped. */
export interface StoppedAnswer {
  stopped: string[];
}

/** The name and the type of a column. */
export interface TableColumn {
  name: string;
  type: string;
}

/** A small project to start from, with `files` and `entry` as `POST /v1/run` takes them. */
export interface TemplateAnswer {
  name: string;
  language: string;
  description: string;
  entry: string;
  files: Record<string, string>;
}

/** A template without the contents of its files. */
export interface TemplateSummary {
  name: string;
  language: string;
  description: string;
  entry: string;
  files: string[];
}

/** The files that were written. */
export interface Uploaded {
  items: EntryAnswer[];
  next: string | null;
}

/** The resources that a sandbox uses. */
export interface UsageAnswer {
  memory: number;
  memory_peak: number;
  cpu_time: number;
  disk: number;
  processes: number;
  network: NetworkAnswer;
}

/** The use of an owner by day (2026-01-31), and the number of sandboxes alive now. */
export interface UsedAnswer {
  owner: string;
  sandboxes: number;
  days: Record<string, DayAnswer>;
}

/** The value of a variable, in one line. */
export interface ValueAnswer {
  type: string;
  shown: string;
}

/** A variable. */
export interface VariableAnswer {
  name: string;
  type: string;
  size: number;
  shown: string;
  shape: string;
}

/** The variables that differ. */
export interface VariableChangesAnswer {
  created: VariableAnswer[];
  changed: VariableAnswer[];
  removed: string[];
}

/** The variables of a context; where they cannot be listed now, or in this language, `state` says so. */
export interface VariableListAnswer {
  items: VariableAnswer[];
  total: number;
  state: "ready" | "busy" | "unsupported";
}

/** The version of Cloche, and the version of its HTTP interface. */
export interface VersionAnswer {
  name: string;
  version: string;
  api: string;
}

/** Files that remain when their sandbox ends; `sandbox` used them last, and uses them now if they are `open`. */
export interface WorkspaceAnswer {
  id: string;
  sandbox: string;
  created: number;
  saved: number;
  bytes: number;
  files: number;
  open: boolean;
}
