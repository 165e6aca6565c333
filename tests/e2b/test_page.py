"""docs/e2b.md names every method of the clients, and none that they have not."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "e2b.md"

# What a class has beside what it asks a server for: builders of values, and attributes.
LOCAL = {
    "Sandbox": {"commands", "files", "git", "pty", "connection_config", "sandbox_domain", "sandbox_id"}
    | {"envd_api_url", "envd_direct_url", "traffic_access_token", "mcp_port"}
    | {"default_template", "default_mcp_template", "default_sandbox_timeout"},
    "CommandHandle": {"pid"},
    "Volume": {"name", "token", "volume_id"},
    "Template": {"skip_cache", "to_dockerfile", "to_json"},
    "Secret": {"fill", "iam_token"},
}

METHODS = """
import inspect, json
from e2b import CommandHandle, Git, Secret, Template, Volume, WatchHandle
from e2b.sandbox_sync.commands.command import Commands
from e2b.sandbox_sync.commands.pty import Pty
from e2b.sandbox_sync.filesystem.filesystem import Filesystem
from e2b_code_interpreter import AsyncSandbox, Sandbox

def public(kind):
    return [name for name in dir(kind) if not name.startswith("_")]

kinds = {"commands": Commands, "pty": Pty, "files": Filesystem, "git": Git, "Sandbox": Sandbox, "Volume": Volume,
         "CommandHandle": CommandHandle, "WatchHandle": WatchHandle, "Template": Template, "Secret": Secret}
print(json.dumps({"all": {name: public(kind) for name, kind in kinds.items()}, "async": public(AsyncSandbox)}))
"""


def test_every_method_of_the_clients_is_in_the_table(client_python: Path) -> None:
    done = subprocess.run([str(client_python), "-c", METHODS], capture_output=True, text=True, timeout=60, check=True)
    found = json.loads(done.stdout)
    rows = re.findall(r"^\| (`[^|]+`) \| (works|differs|missing) \|", PAGE.read_text(), re.M)
    told = {name for names, _ in rows for name in re.findall(r"`(\w+\.\w+)`", names)}

    there = {
        f"{kind}.{name}"
        for kind, names in found["all"].items()
        for name in names
        if name not in LOCAL.get(kind, set()) and not (kind == "Template" and name.startswith("from_"))
    }
    assert there - told == set()
    assert told - there == set()
    assert set(found["async"]) == set(found["all"]["Sandbox"])
