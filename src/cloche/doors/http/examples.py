"""An example of each operation in the API reference: a curl command that works when it is pasted."""

from __future__ import annotations

import re
from json import dumps
from typing import Any

# Bodies that say more than their required fields would.
_BODIES: dict[str, Any] = {
    "programs_run": {"code": "print(6 * 7)"},
    "sandboxes_create": {"undo": True, "metadata": {"name": "my first"}},
    "sandboxes_update": {"ttl": 3600},
    "network_replace": {"allow": ["api.example.org"]},
    "packages_install": {"packages": ["humanize", "six>=1.16"]},
    "environments_create": {"name": "report", "packages": ["humanize"], "imports": ["humanize"]},
    "commands_start": {"command": "ls -l", "wait": True},
    "commands_write_input": {"data": "yes\n"},
    "runs_write_input": {"data": "yes\n"},
    "runs_answer_call": {"value": 42},
    "sessions_best_of": {"candidates": ["x = 1", "x = 2"], "score": "x"},
    "checkpoints_create": {"name": "before the change"},
    "keys_create": {"owner": "ada", "name": "laptop", "scopes": ["run"], "limits": {"sandboxes": 5}},
    "shares_create": {"title": "For a friend", "files": [{"path": "main.py", "text": "print(1)"}], "runs": []},
    "containers_exec": {"id": "ID", "command": "ls -l"},
    "containers_stop": {"id": "ID"},
}
_VALUES: dict[str, Any] = {
    "code": "print(6 * 7)",
    "path": "data",
    "new_path": "data/renamed.csv",
    "signal": "SIGINT",
    "columns": 80,
    "rows": 24,
}
_EMPTY: dict[str, Any] = {"string": "", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


def body_of(operation: dict[str, Any], description: dict[str, Any]) -> Any:
    """An example of the operation's JSON body."""
    identity = operation["operationId"]
    if identity in _BODIES:
        return _BODIES[identity]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    schema = next((one for one in schema.get("anyOf", [schema]) if "$ref" in one), schema)
    if "$ref" in schema:
        schema = description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    fields = schema.get("properties", {})
    return {name: _VALUES.get(name, _EMPTY.get(fields[name].get("type"))) for name in schema.get("required", [])}


def example(method: str, template: str, operation: dict[str, Any], description: dict[str, Any]) -> str:
    """The operation as a curl command; names in the address are shell variables."""
    address = template.replace("{path}", "data/table.csv")
    address = re.sub(r"\{(\w+)\}", lambda found: f"${found[1].upper()}", address)
    needed = [one for one in operation.get("parameters", []) if one["in"] == "query" and one.get("required")]
    if needed:
        address += "?" + "&".join(f"{one['name']}={one['name'].upper()}" for one in needed)
    answers = [
        kind for status, one in operation["responses"].items() if status < "3" for kind in one.get("content", {})
    ]
    streams = bool(answers) and all(kind == "text/event-stream" for kind in answers)
    words = [f'curl {"-N " if streams else ""}"$CLOCHE_URL{address}"']
    if operation["security"]:
        words.append('-H "Authorization: Bearer $CLOCHE_API_KEY"')
    kinds = operation.get("requestBody", {}).get("content", {})
    if method in ("put", "patch", "delete"):
        words.insert(1, f"-X {method.upper()}")
    if "application/json" in kinds:
        text = dumps(body_of(operation, description)).replace("'", "'\\''")
        words.append(f"--json '{text}'")
    elif "multipart/form-data" in kinds:
        words.append("-F file=@table.csv")
    elif kinds:
        words.append("--data-binary @table.csv")
    elif method == "post":
        words.insert(1, "-X POST")
    if operation["operationId"] == "files_archive":
        words.append("-o sandbox.zip")
    return " \\\n  ".join([" ".join(words[:-1]), words[-1]]) if len(" ".join(words)) > 90 else " ".join(words)
