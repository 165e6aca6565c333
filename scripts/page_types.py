"""Writes what the page knows of the server: `web/src/api/schema.ts`, the shapes that the HTTP interface takes and
answers, `web/src/api/limits.ts`, the table of limits,
`web/src/api/clients.ts`, the MCP clients and their entries, and `web/src/api/words.ts`, the words of hints.

.venv/bin/python scripts/page_types.py            write them
.venv/bin/python scripts/page_types.py --check    only say whether they are up to date
"""

from __future__ import annotations

import re
import sys
from json import dumps
from pathlib import Path
from typing import Any, cast

from cloche.cli.mcp_clients import CLIENTS, McpClient
from cloche.doors.http import app
from cloche.doors.mcp.door import McpDoor
from cloche.doors.metrics import Metrics
from cloche.doors.ports import PortDoor
from cloche.model.limits import LIMITS
from cloche.model.wording import ALLOW, ALLOWED, SUBJECTS
from cloche.service.service import Service

FOLDER = Path(__file__).parent.parent / "web" / "src" / "api"
_HEAD = "// Written by scripts/page_types.py from the server's own description (/openapi.json). Do not edit.\n"
_LIMITS = """\
// Written by scripts/page_types.py from src/cloche/model/limits.py. Do not edit.

import type {{ LimitsAnswer }} from "./schema";

export interface Limit {{
  name: keyof LimitsAnswer;
  unit: {units};
  title: string;
  low: number;
  high: number;
}}

export const LIMITS: readonly Limit[] = [
{rows}
];
"""
_CLIENTS = """\
// Written by scripts/page_types.py from src/cloche/cli/mcp_clients.py. Do not edit.

export interface McpClient {{
  name: {names};
  title: string;
  /** The folder of its configuration: the user's home, or where programs keep their settings. */
  folder: "home" | "settings";
  file: string;
  /** The entry for a server, with `{{url}}` and `{{key}}` in place of its address and a key. */
  config: string;
}}

export const CLIENTS: readonly McpClient[] = {clients};
"""
_WORDS = """\
// Written by scripts/page_types.py from src/cloche/model/wording.py. Do not edit.

const WORDS: readonly (readonly [string, string])[] = [
{rows}
];

/** A text of the server in the words of the page: it names the fields of requests where the page has labels. */
export const worded = (text: string): string =>
  WORDS.reduce((now, [from, to]) => now.replaceAll(from, to), text).replace({allowed}, {allow});
"""
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def description() -> dict[str, Any]:
    """The OpenAPI description; no service is needed to make it."""
    nobody = cast(Any, None)
    built = app.build(cast(Service, nobody), cast(Metrics, nobody), cast(PortDoor, nobody), cast(McpDoor, nobody))
    return built.openapi()


def written(schemas: dict[str, Any]) -> str:
    """All shapes, by name."""
    return "\n".join([_HEAD, *(_interface(name, schemas[name]) for name in sorted(schemas))])


def limits() -> str:
    """The table of limits."""
    fields = ("name", "unit", "title", "low", "high")
    rows = ["  { " + ", ".join(f"{name}: {dumps(getattr(row, name))}" for name in fields) + " }," for row in LIMITS]
    return _LIMITS.format(units=" | ".join(sorted({dumps(row.unit) for row in LIMITS})), rows="\n".join(rows))


def clients() -> str:
    """The table of MCP clients."""
    rows = [
        {
            "name": name,
            "title": client.title,
            "folder": client.user_file[0],
            "file": client.user_file[1],
            "config": _config(client),
        }
        for name, client in CLIENTS.items()
    ]
    return _CLIENTS.format(names=" | ".join(map(dumps, CLIENTS)), clients=dumps(rows, indent=2))


def _config(client: McpClient) -> str:
    text = dumps({client.key: {"cloche": client.entry(["cloche"], "{url}", "{key}")}}, indent=2)
    return re.sub(r"\[[^\[\]]*\]", lambda found: " ".join(found[0].split()).replace("[ ", "[").replace(" ]", "]"), text)


def words() -> str:
    """What hints name, in the words of HTTP and in those of the page."""
    pairs = sorted({subject.http: subject.page for subject in SUBJECTS}.items(), key=lambda pair: -len(pair[0]))
    rows = "\n".join(f"  [{dumps(http)}, {dumps(page, ensure_ascii=False)}]," for http, page in pairs)
    return _WORDS.format(rows=rows, allowed=f"/{ALLOWED.pattern}/g", allow=dumps(ALLOW.page, ensure_ascii=False))


def _name(name: str) -> str:
    return re.sub(r"Page_(\w+?)_$", r"PageOf\1", name.replace("[", "_").replace("]", "_"))


def _interface(name: str, schema: dict[str, Any]) -> str:
    about = schema.get("description", "").strip().split("\n")[0]
    comment = f"/** {about} */\n" if about else ""
    if "properties" not in schema:
        return f"{comment}export type {_name(name)} = {_type(schema)};\n"
    asked = name.endswith("Body") or name in ("SandboxChanges", "ContextChoice", "Base64")
    needed = schema.get("required", [])
    lines = []
    for field, told in schema["properties"].items():
        mark = "" if field in needed or (not asked and "default" in told and told["default"] is not None) else "?"
        lines.append(f"  {field}{mark}: {_type(told)};")
    return f"{comment}export interface {_name(name)} {{\n" + "\n".join(lines) + "\n}\n"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return _name(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return " | ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in schema["enum"])
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if schema.get("type") == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(_type(one) for one in schema['prefixItems'])}]"
        inner = _type(schema.get("items", {}))
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if schema.get("type") == "object":
        more = schema.get("additionalProperties", {})
        return f"Record<string, {_type(more) if isinstance(more, dict) else 'unknown'}>"
    return _PLAIN.get(schema.get("type", ""), "unknown")


def main() -> int:
    """Write them, or compare."""
    schemas = description()["components"]["schemas"]
    texts = {"schema.ts": written(schemas), "limits.ts": limits(), "clients.ts": clients(), "words.ts": words()}
    if "--check" not in sys.argv[1:]:
        for name, text in texts.items():
            (FOLDER / name).write_text(text)
        return 0
    stale = [name for name, text in texts.items() if (FOLDER / name).read_text() != text]
    if stale:
        print(f"{', '.join(stale)} is not what the server describes: run scripts/page_types.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
