/** Files and folders that were dropped on the page, or chosen in a dialog, as a flat list with their paths. */

import type { Upload } from "../../state/tree";

/** All dropped files, including those in folders. */
export async function dropped(transfer: DataTransfer): Promise<Upload[]> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.() ?? null);
  if (entries.some((entry) => entry !== null)) {
    const found = await Promise.all(entries.map((entry) => (entry ? within(entry, "") : [])));
    return found.flat();
  }
  return chosen(transfer.files);
}

export function chosen(files: FileList): Upload[] {
  return [...files].map((file) => ({ name: file.webkitRelativePath || file.name, contents: file }));
}

async function within(entry: FileSystemEntry, prefix: string): Promise<Upload[]> {
  const name = prefix + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    return [{ name, contents: file }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const found: Upload[] = [];
  for (;;) {
    // A reader returns a hundred entries at a time, and none at the end.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return found;
    for (const one of some) found.push(...(await within(one, `${name}/`)));
  }
}
