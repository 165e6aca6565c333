/** Completion, hover, signatures and definitions for Python: completion.py answers, in the sandbox itself, so it sees its
packages and files. It is started with the first Python file, and again when it was ended. */

import * as api from "../../../api/cloche";
import { openFile } from "../../../state/documents";
import type { Live } from "../../../state/live";
import { left, sandbox } from "../../../state/sandbox";
import { monaco, type Monaco } from "../monaco";
import source from "./completion.py?raw";
import { whole } from "./surroundings";

const PATIENCE_MS = 8000;

interface Asked {
  kind: "complete" | "describe" | "hover" | "signature" | "definition";
  path: string;
  text: string;
  line: number;
  column: number;
  name?: string;
}

/** One process of it, in one sandbox. */
class Server {
  private rest = "";
  private readonly waiting = new Map<number, (found: unknown[]) => void>();
  private readonly stops: (() => void)[];
  private last = 0;
  isOver = false;

  private constructor(
    private readonly id: string,
    private readonly command: string,
    live: Live,
  ) {
    this.stops = [
      live.output.on((output) => {
        if (output.command !== command) return;
        if (output.kind === "stdout") this.take(output.event.text ?? "");
        if (output.kind === "exit") this.end();
      }),
      left.on(() => this.end()),
    ];
    live.follow(command);
  }

  static async start(id: string, live: Live): Promise<Server> {
    // Uses nice, so that it takes no CPU time from the person's runs.
    const command = await api.startCommand(id, { command: ["nice", "-n", "5", "python3", "-c", source], cwd: "/sandbox" });
    return new Server(id, command.id, live);
  }

  async ask<T>(asked: Asked): Promise<T[]> {
    const number = ++this.last;
    const answer = new Promise<unknown[]>((resolve) => {
      this.waiting.set(number, resolve);
      setTimeout(() => this.waiting.delete(number) && resolve([]), PATIENCE_MS);
    });
    await api.writeToCommand(this.id, this.command, `${JSON.stringify({ id: number, ...asked })}\n`).catch(() => this.end());
    return (await answer) as T[];
  }

  private take(text: string): void {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      const { id, found } = JSON.parse(line) as { id: number; found: unknown[] };
      this.waiting.get(id)?.(found);
      this.waiting.delete(id);
    }
  }

  private end(): void {
    this.isOver = true;
    for (const stop of this.stops) stop();
    for (const resolve of this.waiting.values()) resolve([]);
    this.waiting.clear();
  }
}

let starting: Promise<Server> | null = null;
let ofSandbox = "";

async function server(): Promise<Server | null> {
  const { record, live, phase } = sandbox.get();
  if (!record || !live || phase !== "open") return null;
  if (starting && ofSandbox === record.id && !(await starting.catch(() => null))?.isOver) return starting;
  ofSandbox = record.id;
  starting = Server.start(record.id, live);
  return starting;
}

async function ask<T>(kind: Asked["kind"], model: Monaco.editor.ITextModel, position: Monaco.Position, more: Partial<Asked> = {}): Promise<T[]> {
  try {
    const found = await server();
    if (!found) return [];
    const { text, before } = whole(model);
    const asked = { kind, path: model.uri.path, text, line: position.lineNumber + before, column: position.column - 1, ...more };
    return await found.ask<T>(asked);
  } catch {
    return []; // missing help is no reason to show an error
  }
}

interface Description {
  signature: string;
  text: string;
}

const markdown = ({ signature, text }: Description): Monaco.IMarkdownString[] => [
  { value: `\`\`\`python\n${signature}\n\`\`\`` },
  ...(text ? [{ value: `\`\`\`text\n${text}\n\`\`\`` }] : []),
];

export function begin(): void {
  const kinds: Record<string, Monaco.languages.CompletionItemKind> = {
    module: monaco.languages.CompletionItemKind.Module,
    class: monaco.languages.CompletionItemKind.Class,
    function: monaco.languages.CompletionItemKind.Function,
    param: monaco.languages.CompletionItemKind.Variable,
    path: monaco.languages.CompletionItemKind.File,
    keyword: monaco.languages.CompletionItemKind.Keyword,
    property: monaco.languages.CompletionItemKind.Property,
    statement: monaco.languages.CompletionItemKind.Variable,
    instance: monaco.languages.CompletionItemKind.Variable,
  };
  interface Item extends Monaco.languages.CompletionItem {
    asked: { model: Monaco.editor.ITextModel; position: Monaco.Position };
  }
  monaco.languages.registerCompletionItemProvider("python", {
    triggerCharacters: ["."],
    async provideCompletionItems(model, position) {
      const found = await ask<{ name: string; kind: string; start: number }>("complete", model, position);
      const suggestions: Item[] = found.map(({ name, kind, start }) => ({
        label: name,
        kind: kinds[kind] ?? monaco.languages.CompletionItemKind.Text,
        insertText: name,
        sortText: `${name.startsWith("__") ? 2 : name.startsWith("_") ? 1 : 0}${name}`,
        range: new monaco.Range(position.lineNumber, position.column - start, position.lineNumber, position.column),
        asked: { model, position },
      }));
      return { suggestions };
    },
    async resolveCompletionItem(item) {
      const { asked, label } = item as Item;
      const [found] = await ask<Description>("describe", asked.model, asked.position, { name: String(label) });
      return found ? { ...item, detail: found.signature.split("\n")[0] ?? "", documentation: found.text } : item;
    },
  });
  monaco.languages.registerHoverProvider("python", {
    async provideHover(model, position) {
      if (!model.getWordAtPosition(position)) return null;
      const [found] = await ask<Description>("hover", model, position);
      return found ? { contents: markdown(found) } : null;
    },
  });
  monaco.languages.registerSignatureHelpProvider("python", {
    signatureHelpTriggerCharacters: ["(", ","],
    async provideSignatureHelp(model, position) {
      const found = await ask<{ label: string; parameters: string[]; active: number | null; text: string }>("signature", model, position);
      if (found.length === 0) return null;
      return {
        value: {
          signatures: found.map((one) => ({ label: one.label, documentation: one.text, parameters: one.parameters.map((label) => ({ label })) })),
          activeSignature: 0,
          activeParameter: found[0]?.active ?? 0,
        },
        dispose: () => undefined,
      };
    },
  });
  monaco.languages.registerDefinitionProvider("python", {
    async provideDefinition(model, position) {
      const found = await ask<{ path: string; line: number; column: number }>("definition", model, position);
      const { before } = whole(model);
      return found.flatMap(({ path, line, column }) => {
        const isHere = path === model.uri.path;
        const at = isHere ? line - before : line;
        if (at < 1 || (isHere && at > model.getLineCount())) return []; // in another cell
        return [{ uri: isHere ? model.uri : monaco.Uri.file(path), range: new monaco.Range(at, column + 1, at, column + 1) }];
      });
    },
  });
  monaco.editor.registerEditorOpener({
    openCodeEditor(_, resource, at) {
      const place = at && "startLineNumber" in at ? { line: at.startLineNumber, column: at.startColumn } : { line: at?.lineNumber ?? 1, column: at?.column ?? 1 };
      void openFile(resource.path, place);
      return true;
    },
  });
}
