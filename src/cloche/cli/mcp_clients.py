"""MCP clients: where each keeps its configuration, and the entry that each expects."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloche.errors import InvalidRun, Misconfigured

MCP_SERVERS = "mcpServers"
SERVERS = "servers"  # VS Code's name for it


@dataclass(frozen=True)
class Place:
    """The folders of this user on this system."""

    system: str  # `sys.platform`
    home: Path
    settings: Path  # where programs keep their configuration
    project: Path

    @classmethod
    def here(cls, system: str, environ: dict[str, str], project: Path) -> Place:
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
    user_file: tuple[str, str]  # a folder of Place, and a path below it
    project_file: str | None = None
    key: str = MCP_SERVERS
    types: bool = False  # an entry has a field `type`
    address: str | None = "url"  # the field for a server's address; None: the client only starts commands

    def file(self, place: Place, in_project: bool) -> Path:
        if not in_project:
            folder, name = self.user_file
            return Path(getattr(place, folder), name)
        if self.project_file is None:
            raise InvalidRun(f"{self.title} has no configuration per project.", hint="Leave out --project.")
        return place.project / self.project_file

    def entry(self, command: list[str], url: str, api_key: str) -> dict[str, Any]:
        """Return the entry for Cloche: a command to start, or the address of a server."""
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
    "vscode": McpClient("VS Code", ("settings", "Code/User/mcp.json"), ".vscode/mcp.json", key=SERVERS, types=True),
    "windsurf": McpClient("Windsurf", ("home", ".codeium/windsurf/mcp_config.json"), address="serverUrl"),
    "gemini": McpClient("Gemini CLI", ("home", ".gemini/settings.json"), ".gemini/settings.json", address="httpUrl"),
}


def read(path: Path) -> tuple[str, dict[str, Any]]:
    """Return a configuration file as text and as an object; both are empty if there is no file."""
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return "", {}
    except (OSError, UnicodeDecodeError) as problem:
        raise Misconfigured(f"{path} cannot be read: {problem}.", hint="The file was not changed.") from None
    try:
        settings = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as problem:
        raise Misconfigured(
            f"{path} is not plain JSON: {problem}.",
            hint="The file was not changed, because comments in it would be lost. Add the entry that --print shows "
            "by hand.",
        ) from None
    if not isinstance(settings, dict):
        raise Misconfigured(f"{path} does not contain a JSON object.", hint="The file was not changed.")
    return text, settings


def merged(path: Path, settings: dict[str, Any], key: str, name: str, entry: dict[str, Any]) -> str:
    """Return the file's new text: everything that was there, and our entry."""
    servers = settings.get(key, {})
    if not isinstance(servers, dict):
        raise Misconfigured(f"{key!r} in {path} is not a JSON object.", hint="The file was not changed.")
    return json.dumps({**settings, key: {**servers, name: entry}}, indent=2, ensure_ascii=False) + "\n"


def write(path: Path, text: str) -> Path | None:
    """Replace the file atomically.  Keep a copy of the old one beside it, and return the path of the copy."""
    real = Path(os.path.realpath(path))  # a symbolic link to a file elsewhere stays a link
    real.parent.mkdir(parents=True, exist_ok=True)
    backup = None
    mode = 0o600  # the file may contain a key
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
    raise Misconfigured(f"There are too many backups of {path}.", hint="Delete some of them.")


def _put(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    path.chmod(mode)  # regardless of the umask
