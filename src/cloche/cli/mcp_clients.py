"""MCP clients: where each keeps its configuration, and what it wants to read there."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloche.errors import InvalidRun, Misconfigured

SERVER = "servers"  # what VS Code calls the list; the others say:
MCP_SERVERS = "mcpServers"


@dataclass(frozen=True)
class Place:
    """The folders of this user, on this system."""

    system: str  # as `sys.platform` has it
    home: Path
    settings: Path  # where programs keep what a person has set
    project: Path

    @classmethod
    def here(cls, system: str, environ: dict[str, str], project: Path) -> Place:
        """By the environment."""
        home = Path(environ.get("USERPROFILE" if system == "win32" else "HOME") or Path.home())
        if system == "win32":
            settings = Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
        elif system == "darwin":
            settings = home / "Library" / "Application Support"
        else:
            given = environ.get("XDG_CONFIG_HOME", "")
            settings = Path(given) if given.startswith("/") else home / ".config"
        return cls(system, home, settings, project)


@dataclass(frozen=True)
class McpClient:
    """A program that speaks MCP."""

    title: str
    user_file: tuple[str, str]  # below which folder of Place, and where
    project_file: str | None = None
    key: str = MCP_SERVERS
    types: bool = False  # says of each server what kind it is
    address: str | None = "url"  # what it calls the address of a server; None: it starts commands only

    def file(self, place: Place, in_project: bool) -> Path:
        """Its configuration file."""
        if not in_project:
            folder, name = self.user_file
            return Path(getattr(place, folder), name)
        if self.project_file is None:
            raise InvalidRun(f"{self.title} has no configuration per project.", hint="Leave out --project.")
        return place.project / self.project_file

    def entry(self, command: list[str], url: str, api_key: str) -> dict[str, Any]:
        """What it should know of Cloche: a command to start, or the address of a server."""
        if url and self.address is not None:
            remote: dict[str, Any] = {"type": "http"} if self.types else {}
            remote[self.address] = f"{url}/mcp"
            if api_key:
                remote["headers"] = {"Authorization": f"Bearer {api_key}"}
            return remote
        entry: dict[str, Any] = {"type": "stdio"} if self.types else {}
        entry |= {"command": command[0], "args": [*command[1:], "mcp"]}
        if url:
            entry["args"] += ["--url", url]
        if url and api_key:
            entry["env"] = {"CLOCHE_API_KEY": api_key}
        return entry


CLIENTS = {
    "claude": McpClient("Claude Desktop", ("settings", "Claude/claude_desktop_config.json"), address=None),
    "claude-code": McpClient("Claude Code", ("home", ".claude.json"), ".mcp.json", types=True),
    "cursor": McpClient("Cursor", ("home", ".cursor/mcp.json"), ".cursor/mcp.json"),
    "vscode": McpClient("VS Code", ("settings", "Code/User/mcp.json"), ".vscode/mcp.json", key=SERVER, types=True),
    "windsurf": McpClient("Windsurf", ("home", ".codeium/windsurf/mcp_config.json"), address="serverUrl"),
    "gemini": McpClient("Gemini CLI", ("home", ".gemini/settings.json"), ".gemini/settings.json", address="httpUrl"),
}


def read(path: Path) -> tuple[str, dict[str, Any]]:
    """A configuration file, as text and as what it says; an empty one when there is none."""
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return "", {}
    except (OSError, UnicodeDecodeError) as problem:
        raise Misconfigured(f"{path} cannot be read: {problem}.", hint="It was left as it is.") from None
    try:
        told = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as problem:
        raise Misconfigured(
            f"{path} is not plain JSON: {problem}.",
            hint="It was left as it is. Add what --print shows by hand; comments, for one, would be lost otherwise.",
        ) from None
    if not isinstance(told, dict):
        raise Misconfigured(f"{path} holds no JSON object.", hint="It was left as it is.")
    return text, told


def merged(path: Path, told: dict[str, Any], key: str, name: str, entry: dict[str, Any]) -> str:
    """The file's new text: all that was there, and ours."""
    servers = told.get(key, {})
    if not isinstance(servers, dict):
        raise Misconfigured(f"{key!r} in {path} is no JSON object.", hint="It was left as it is.")
    return json.dumps({**told, key: {**servers, name: entry}}, indent=2, ensure_ascii=False) + "\n"


def write(path: Path, text: str) -> Path | None:
    """Replace the file as a whole; what was there is kept beside it, and that file's path is returned."""
    real = Path(os.path.realpath(path))  # a link, as those who keep their settings elsewhere have, stays one
    real.parent.mkdir(parents=True, exist_ok=True)
    backup = None
    mode = 0o600  # there may be a key in it
    if real.exists():
        mode = stat.S_IMODE(real.stat().st_mode)
        backup = _free(real)
        _put(backup, real.read_bytes(), mode)
    fresh = real.with_name(f".{real.name}.{os.getpid()}.new")
    try:
        _put(fresh, text.encode(), mode)
        os.replace(fresh, real)
    finally:
        fresh.unlink(missing_ok=True)
    return backup


def _free(path: Path) -> Path:
    for number in range(1, 10_000):
        backup = path.with_name(f"{path.name}.bak{number}")
        if not backup.exists():
            return backup
    raise Misconfigured(f"There are too many backups of {path}.", hint="Remove some.")


def _put(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    path.chmod(mode)  # whatever the umask says
