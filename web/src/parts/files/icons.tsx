import { Braces, File, FileCode, FileImage, FileSpreadsheet, FileTerminal, FileText, Folder, FolderOpen, Link } from "lucide-react";
import type { EntryAnswer } from "../../api/schema";
import { isFolder } from "../../state/tree";

const byEnding: [RegExp, typeof File, string][] = [
  [/\.(py|ipynb)$/, FileCode, "text-info"],
  [/\.(tsx?|mts|jsx?|mjs|cjs)$/, FileCode, "text-warn"],
  [/\.(sh|bash)$/, FileTerminal, "text-accent"],
  [/\.(json|toml|ya?ml|ini)$/, Braces, "text-ink-faint"],
  [/\.(png|jpe?g|gif|svg|webp)$/, FileImage, "text-[var(--ansi-magenta)]"],
  [/\.(csv|tsv|xlsx?|parquet)$/, FileSpreadsheet, "text-accent"],
  [/\.(md|txt|html?|pdf)$/, FileText, "text-ink-faint"],
];

export function FileIcon({ path, size = 14 }: { path: string; size?: number }) {
  const [, Icon, tint] = byEnding.find(([pattern]) => pattern.test(path)) ?? [null, File, "text-ink-faint"];
  return <Icon size={size} className={`shrink-0 ${tint}`} aria-hidden="true" />;
}

export function EntryIcon({ entry, open }: { entry: EntryAnswer; open: boolean }) {
  if (entry.kind === "symlink") return <Link size={14} className="shrink-0 text-ink-faint" aria-hidden="true" />;
  if (!isFolder(entry)) return <FileIcon path={entry.path} />;
  const Icon = open ? FolderOpen : Folder;
  return <Icon size={14} className="shrink-0 text-accent" aria-hidden="true" />;
}
