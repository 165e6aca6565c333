import { ChevronRight, Download, FilePlus, FolderPlus, RefreshCw, Upload as UploadIcon } from "lucide-react";
import { useEffect, useRef, useState, type DragEvent, type KeyboardEvent } from "react";
import * as api from "../../api/cloche";
import type { EntryAnswer } from "../../api/schema";
import { offer } from "../../state/commands";
import { documents, openFile } from "../../state/documents";
import { bytes } from "../../state/format";
import { plain } from "../../state/names";
import { theSandbox } from "../../state/sandbox";
import { useStore } from "../../state/store";
import { attempt, note } from "../../state/toasts";
import * as files from "../../state/tree";
import { baseOf, isFolder, join, nameOf, parentOf, ROOT, shown, tree, type Upload } from "../../state/tree";
import { IconButton } from "../../ui/Button";
import { classes } from "../../ui/classes";
import { Confirm } from "../../ui/Dialog";
import { OtherMenu, Menu, type Entry } from "../../ui/Menu";
import { Pane } from "../../ui/Pane";
import { Failed, Loading } from "../../ui/states";
import { chosen, dropped } from "./dropped";
import { EntryIcon } from "./icons";

const DRAGGED = "application/x-cloche-path";

/** The name being typed: for a new file or folder, or for an existing one. */
type Naming = { kind: "file" | "folder"; folder: string } | { kind: "rename"; path: string };

interface Row {
  entry: EntryAnswer;
  depth: number;
}

function rows(folder: string, depth: number): Row[] {
  const { folders, expanded } = tree.get();
  return (folders[folder] ?? []).flatMap((entry) => [
    { entry, depth },
    ...(isFolder(entry) && expanded[entry.path] ? rows(entry.path, depth + 1) : []),
  ]);
}

/** The sandbox's files. */
export function FilesPanel() {
  const state = useStore(tree, (value) => value);
  const activePath = useStore(documents, (value) => value.active);
  const [naming, setNaming] = useState<Naming | null>(null);
  const [removing, setRemoving] = useState<EntryAnswer | null>(null);
  const [over, setOver] = useState<string | null>(null);
  const [uploading, setUploading] = useState<{ done: number; all: number } | null>(null);
  const list = useRef<HTMLDivElement>(null);
  const filePicker = useRef<HTMLInputElement>(null);
  const folderPicker = useRef<HTMLInputElement>(null);

  /** The folder for new files: the selected folder, or that of the selected file. */
  const target = (): string => {
    const { selected, folders } = tree.get();
    if (selected === null) return `${ROOT}/code`;
    const entry = Object.values(folders).flat().find((one) => one.path === selected);
    return entry && isFolder(entry) ? selected : parentOf(selected);
  };

  /** The folder for uploads: the same, or `data` while nothing is selected. */
  const uploadTarget = (): string => (tree.get().selected === null ? `${ROOT}/data` : target());

  const begin = (kind: "file" | "folder", folder = target()) => {
    files.expand(folder, true);
    setNaming({ kind, folder });
  };

  useEffect(
    () =>
      offer(
        { id: "files.new", title: "New file", group: "Files", keys: "alt+n", run: () => begin("file") },
        { id: "files.new-folder", title: "New folder", group: "Files", run: () => begin("folder") },
        { id: "files.upload", title: "Upload files", group: "Files", run: () => filePicker.current?.click() },
        { id: "files.download", title: "Download everything as a zip", group: "Files", run: () => download(ROOT, true) },
      ),
    [],
  );

  const send = (folder: string, uploads: Upload[]) =>
    attempt(async () => {
      if (uploads.length === 0) return;
      setUploading({ done: 0, all: uploads.length });
      try {
        files.expand(folder, true);
        await files.upload(folder, uploads, (done) => setUploading({ done, all: uploads.length }));
        note(uploads.length === 1 ? `Uploaded ${uploads[0]?.name}` : `Uploaded ${uploads.length} files`, `to ${shown(folder) || "/"}`);
      } finally {
        setUploading(null);
      }
    });

  /** `where` is the folder on which it was dropped; null is beside all of them. */
  const drop = (event: DragEvent, where: string | null) => {
    event.preventDefault();
    event.stopPropagation();
    setOver(null);
    const path = event.dataTransfer.getData(DRAGGED);
    const folder = where ?? (path ? ROOT : uploadTarget());
    if (path) {
      if (path !== folder && parentOf(path) !== folder && !files.isWithin(folder, path)) attempt(() => files.move(path, join(folder, baseOf(path))));
      return;
    }
    attempt(async () => send(folder, await dropped(event.dataTransfer)));
  };

  const hover = (event: DragEvent, where: string | null) => {
    event.preventDefault();
    event.stopPropagation();
    setOver(where ?? (event.dataTransfer.types.includes("Files") ? uploadTarget() : ROOT));
  };

  // Files that are dropped beside the tree are uploaded, too: otherwise the browser would leave the page and show them.
  useEffect(() => {
    const areFiles = (event: globalThis.DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    const allow = (event: globalThis.DragEvent) => areFiles(event) && event.preventDefault();
    const take = (event: globalThis.DragEvent) => {
      const transfer = event.dataTransfer;
      if (!transfer || !areFiles(event) || event.defaultPrevented) return;
      event.preventDefault();
      setOver(null);
      const folder = uploadTarget();
      attempt(async () => send(folder, await dropped(transfer)));
    };
    window.addEventListener("dragover", allow);
    window.addEventListener("drop", take);
    return () => {
      window.removeEventListener("dragover", allow);
      window.removeEventListener("drop", take);
    };
  }, []);

  const name = (value: string) => {
    if (!naming) return;
    const current = naming;
    setNaming(null);
    const clean = value.trim().replace(/^\/+|\/+$/g, "");
    if (!clean) return;
    attempt(async () => {
      if (current.kind === "rename") return files.move(current.path, join(parentOf(current.path), clean));
      const path = join(current.folder, clean);
      if (current.kind === "folder") return files.createFolder(path);
      await files.createFile(path);
      files.select(path);
      await openFile(path);
    });
  };

  const entries = (entry: EntryAnswer): Entry[] => {
    const folder = isFolder(entry) ? entry.path : parentOf(entry.path);
    return [
      ...(isFolder(entry) ? [] : [{ label: "Open", onSelect: () => attempt(() => openFile(entry.path)) }]),
      { label: "New file", onSelect: () => begin("file", folder), icon: <FilePlus size={14} /> },
      { label: "New folder", onSelect: () => begin("folder", folder), icon: <FolderPlus size={14} /> },
      null,
      { label: "Rename", onSelect: () => setTimeout(() => setNaming({ kind: "rename", path: entry.path })), keys: "F2" },
      { label: isFolder(entry) ? "Download as zip" : "Download", onSelect: () => download(entry.path, isFolder(entry)), icon: <Download size={14} /> },
      { label: "Copy path", onSelect: () => attempt(async () => (await navigator.clipboard.writeText(entry.path), note("Copied", entry.path))) },
      null,
      { label: "Delete", onSelect: () => setRemoving(entry), danger: true, keys: "Delete" },
    ];
  };

  const all = rows(ROOT, 0);
  const selectedIndex = all.findIndex((row) => row.entry.path === state.selected);
  const focusRow = (path: string) => {
    files.select(path);
    requestAnimationFrame(() => list.current?.querySelector<HTMLElement>(`[data-path="${CSS.escape(path)}"]`)?.focus());
  };

  const onKey = (event: KeyboardEvent) => {
    if (naming || event.target instanceof HTMLInputElement) return;
    const row = all[selectedIndex];
    const at = (index: number) => {
      const next = all[Math.max(0, Math.min(all.length - 1, index))];
      if (next) focusRow(next.entry.path);
    };
    const handled: Record<string, () => void> = {
      ArrowDown: () => at(selectedIndex + 1),
      ArrowUp: () => at(selectedIndex < 0 ? 0 : selectedIndex - 1),
      Home: () => at(0),
      End: () => at(all.length - 1),
      ArrowRight: () => {
        if (!row || !isFolder(row.entry)) return;
        if (state.expanded[row.entry.path]) at(selectedIndex + 1);
        else files.expand(row.entry.path, true);
      },
      ArrowLeft: () => {
        if (!row) return;
        if (isFolder(row.entry) && state.expanded[row.entry.path]) files.expand(row.entry.path, false);
        else if (parentOf(row.entry.path) !== ROOT) focusRow(parentOf(row.entry.path));
      },
      Enter: () => row && activate(row.entry),
      " ": () => row && activate(row.entry),
      F2: () => row && setNaming({ kind: "rename", path: row.entry.path }),
      Delete: () => row && setRemoving(row.entry),
    };
    const act = handled[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  };

  const activate = (entry: EntryAnswer) => {
    files.select(entry.path);
    if (isFolder(entry)) files.expand(entry.path, !state.expanded[entry.path]);
    else attempt(() => openFile(entry.path));
  };

  return (
    <Pane
      title="Files"
      actions={
        <>
          <IconButton label="New file" size="small" onClick={() => begin("file")}>
            <FilePlus size={14} />
          </IconButton>
          <IconButton label="New folder" size="small" onClick={() => begin("folder")}>
            <FolderPlus size={14} />
          </IconButton>
          <Menu
            align="end"
            trigger={
              <IconButton label="Upload and download" size="small">
                <UploadIcon size={14} />
              </IconButton>
            }
            entries={[
              `To ${shown(uploadTarget()) || "/"}`,
              { label: "Upload files", onSelect: () => filePicker.current?.click() },
              { label: "Upload a folder", onSelect: () => folderPicker.current?.click() },
              null,
              { label: "Download everything as a zip", onSelect: () => download(ROOT, true) },
              { label: "Refresh", onSelect: () => attempt(() => files.list(ROOT)), icon: <RefreshCw size={14} /> },
            ]}
          />
        </>
      }
    >
      <div
        className={classes("flex h-full flex-col", over === ROOT && "bg-accent-soft/60")}
        onDragOver={(event) => hover(event, null)}
        onDragLeave={() => setOver(null)}
        onDrop={(event) => drop(event, null)}
      >
        {state.phase === "loading" && <Loading label="Loading files" />}
        {state.phase === "failed" && <Failed problem={state.problem} retry={() => void files.list(ROOT)} />}
        {state.phase === "ready" && (
          <div
            ref={list}
            role="tree"
            aria-label="Files of the sandbox"
            tabIndex={selectedIndex < 0 ? 0 : -1}
            onKeyDown={onKey}
            onFocus={(event) => event.target === list.current && all[0] && selectedIndex < 0 && focusRow(all[0].entry.path)}
            className="min-h-0 flex-1 overflow-y-auto py-1 outline-none"
          >
            {naming && naming.kind !== "rename" && naming.folder === ROOT && <NameInput depth={0} onDone={name} />}
            {all.map(({ entry, depth }) => {
              const open = state.expanded[entry.path] ?? false;
              const isNew = naming && naming.kind !== "rename" && naming.folder === entry.path;
              if (naming?.kind === "rename" && naming.path === entry.path) {
                return <NameInput key={entry.path} depth={depth} initial={baseOf(entry.path)} onDone={name} />;
              }
              return (
                <div key={entry.path} role="none">
                  <OtherMenu entries={() => entries(entry)}>
                    <div
                      role="treeitem"
                      aria-level={depth + 1}
                      aria-selected={entry.path === state.selected}
                      {...(isFolder(entry) ? { "aria-expanded": open } : {})}
                      data-path={entry.path}
                      tabIndex={entry.path === state.selected ? 0 : -1}
                      draggable
                      onDragStart={(event) => {
                        event.dataTransfer.setData(DRAGGED, entry.path);
                        event.dataTransfer.effectAllowed = "move";
                      }}
                      onDragOver={(event) => hover(event, isFolder(entry) ? entry.path : parentOf(entry.path))}
                      onDrop={(event) => drop(event, isFolder(entry) ? entry.path : parentOf(entry.path))}
                      onClick={() => activate(entry)}
                      onContextMenu={() => files.select(entry.path)}
                      style={{ paddingLeft: 8 + depth * 14 }}
                      className={classes(
                        "mx-1 flex h-7 cursor-pointer items-center gap-1.5 rounded-md pr-2 outline-offset-[-2px] select-none",
                        entry.path === activePath ? "bg-accent-soft text-ink" : "hover:bg-hover",
                        over === entry.path && "bg-accent-soft ring-1 ring-accent",
                      )}
                    >
                      {isFolder(entry) ? (
                        <ChevronRight size={13} className={classes("shrink-0 text-ink-faint transition-transform", open && "rotate-90")} aria-hidden="true" />
                      ) : (
                        <span className="w-[13px] shrink-0" />
                      )}
                      <EntryIcon entry={entry} open={open} />
                      <span className="truncate">{nameOf(entry.path)}</span>
                      {entry.kind === "file" && entry.size > 100_000 && (
                        <span className="ml-auto text-2xs text-ink-faint">{bytes(entry.size)}</span>
                      )}
                    </div>
                  </OtherMenu>
                  {isNew && <NameInput depth={depth + 1} onDone={name} />}
                </div>
              );
            })}
            {state.truncated && <p className="px-3 py-1 text-2xs text-ink-faint">There are more files than can be shown.</p>}
          </div>
        )}
        {uploading && (
          <div role="status" className="border-t border-line px-3 py-2 text-xs text-ink-soft">
            Uploading {uploading.done} of {uploading.all}
            <div className="mt-1 h-1 overflow-hidden rounded-full bg-sunken">
              <div className="h-full bg-accent transition-all" style={{ width: `${(100 * uploading.done) / uploading.all}%` }} />
            </div>
          </div>
        )}
      </div>
      <input
        ref={filePicker}
        type="file"
        multiple
        hidden
        data-testid="upload"
        onChange={(event) => {
          if (event.target.files) send(uploadTarget(), chosen(event.target.files));
          event.target.value = "";
        }}
      />
      <input
        ref={(element) => {
          folderPicker.current = element;
          element?.setAttribute("webkitdirectory", "");
        }}
        type="file"
        hidden
        onChange={(event) => {
          if (event.target.files) send(uploadTarget(), chosen(event.target.files));
          event.target.value = "";
        }}
      />
      <Confirm
        open={removing !== null}
        title={`Delete ${removing ? nameOf(removing.path) : ""}?`}
        about={removing && isFolder(removing) ? "The folder and everything in it will be deleted." : "The file will be deleted from the sandbox."}
        action="Delete"
        onClose={() => setRemoving(null)}
        onConfirm={() => removing && attempt(() => files.remove(removing.path))}
      />
    </Pane>
  );
}

function NameInput({ depth, initial = "", onDone }: { depth: number; initial?: string; onDone: (value: string) => void }) {
  const isDone = useRef(false);
  const done = (value: string) => {
    if (isDone.current) return;
    isDone.current = true;
    onDone(value);
  };
  return (
    <div style={{ paddingLeft: 27 + depth * 14 }} className="mr-2 flex h-7 items-center">
      <input
        autoFocus
        aria-label="Name"
        defaultValue={initial}
        spellCheck={false}
        onFocus={(event) => event.target.setSelectionRange(0, initial.includes(".") ? initial.lastIndexOf(".") : initial.length)}
        onBlur={(event) => done(event.target.value)}
        onKeyDown={(event) => {
          event.stopPropagation();
          if (event.key === "Enter") done(event.currentTarget.value);
          if (event.key === "Escape") done("");
        }}
        className="h-6 w-full rounded border border-accent bg-raised px-1.5 outline-none"
      />
    </div>
  );
}

function download(path: string, asZip: boolean): void {
  const link = document.createElement("a");
  link.href = asZip ? api.archiveAddress(theSandbox(), path) : api.fileAddress(theSandbox(), path);
  link.download = plain(asZip ? `${baseOf(path)}.zip` : baseOf(path));
  link.click();
}
