"""`cloche mcp`: over stdio with a real process, here and by way of a server; and what `install` writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError
from tests.conftest import Server

from cloche.cli import mcp_clients
from cloche.cli.mcp_clients import CLIENTS, Place

COMMAND = [sys.executable, "-m", "cloche.cli.main", "mcp"]
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


def surroundings(tmp_path: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLOCHE_", "XDG_"))}
    if "CLOCHE_ENVIRONMENT" in os.environ:
        kept["CLOCHE_ENVIRONMENT"] = os.environ["CLOCHE_ENVIRONMENT"]
    return {**kept, "TMPDIR": str(tmp_path), **more}


@asynccontextmanager
async def stdio(env: dict[str, str], *words: str, mode: str = "legacy") -> AsyncIterator[Client]:
    command = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], *words], env=env)
    async with Client(command, mode=mode) as client:
        yield client


async def run(client: Client, code: str, **more: Any) -> Any:
    return await client.call_tool("code_execution", {"code": code, **more})


# Over stdio


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_conversation_over_stdio(jail: None, tmp_path: Path, mode: str) -> None:
    async with stdio(surroundings(tmp_path), mode=mode) as client:
        assert "code_execution" in [tool.name for tool in (await client.list_tools()).tools]
        seen: list[str | None] = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            seen.append(message)

        code = {"code": "print('hello', flush=True)\nimport time\ntime.sleep(0.6)\nx = 1"}
        first = await client.call_tool("code_execution", code, progress_callback=note)
        assert not first.is_error
        assert first.structured_content["new_session"]["outlives_connection"] is False
        assert "when the client disconnects" in first.content[-1].text
        assert "hello" in seen
        again = await run(client, "x + 1")
        assert again.structured_content["results"] == ["2"]
        assert again.structured_content["session"] == first.structured_content["session"]
        assert "new_session" not in again.structured_content
        unknown = await run(client, "1", session="sbx_of_an_earlier_process")
        assert "end when its client disconnects" in unknown.content[0].text
    assert list(tmp_path.glob("cloche-mcp-*")) == []


def test_nothing_but_messages_on_standard_output(jail: None, tmp_path: Path) -> None:
    call = {"name": "code_execution", "arguments": {"code": "import os\nos.system('echo from a child')\nprint('me')"}}
    messages = [HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    messages.append({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call})
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=surroundings(tmp_path)
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    assert answers[1]["result"]["structuredContent"]["stdout"].endswith("me\n")
    rest, complaints = process.communicate(timeout=30)  # which closes standard input, and so ends it
    assert (rest, process.returncode) == (b"", 0), complaints
    assert list(tmp_path.glob("cloche-mcp-*")) == []


def test_a_signal_ends_it_and_leaves_nothing(jail: None, tmp_path: Path) -> None:
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=surroundings(tmp_path)
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(HELLO).encode() + b"\n")
    process.stdin.flush()
    process.stdout.readline()
    assert list(tmp_path.glob("cloche-mcp-*"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 128 + signal.SIGTERM
    process.communicate()
    assert list(tmp_path.glob("cloche-mcp-*")) == []


# By way of a server


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_bridge_to_a_server(server: Server, http: httpx2.Client, tmp_path: Path, mode: str) -> None:
    env = surroundings(tmp_path, CLOCHE_API_KEY=server.key)
    async with stdio(env, "--url", server.url, mode=mode) as client:
        first = await run(client, "x = 1; open('output/o.txt', 'w').write('there')")
        session = first.structured_content["session"]
        assert http.get(f"/v1/sandboxes/{session}").json()["state"] == "alive"
        assert (await run(client, "x")).structured_content["results"] == ["1"]
        uris = [resource.uri for resource in (await client.list_resources()).resources]
        mine = next(uri for uri in uris if session in uri)
        assert (await client.read_resource(mine)).contents[0].text == "there"
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("nothing", {})
    async with stdio(env, "--url", server.url, mode=mode) as client:  # another connection, with the same key
        assert (await run(client, "x", session=session)).structured_content["results"] == ["1"]
        await client.call_tool("session_end", {"session": session})


async def test_a_bridge_outlives_its_server(serve: Callable[..., Server], tmp_path: Path) -> None:
    first = serve(folder="same")
    env = surroundings(tmp_path, CLOCHE_API_KEY=first.key, CLOCHE_URL=f"{first.url}/")
    async with stdio(env) as client:
        assert not (await run(client, "1")).is_error
        first.stop()
        with pytest.raises(MCPError):
            await run(client, "1")
        serve("--port", str(first.port), folder="same")
        assert not (await run(client, "1")).is_error


@pytest.mark.parametrize(
    ("key", "part"), [("cloche_wrong", "does not accept the key"), ("", "does not accept the key")]
)
async def test_a_wrong_key_is_told(server: Server, tmp_path: Path, key: str, part: str) -> None:
    env = surroundings(tmp_path, CLOCHE_API_KEY=key, XDG_DATA_HOME=str(tmp_path), HOME=str(tmp_path))
    async with stdio(env, "--url", server.url) as client:
        with pytest.raises(MCPError, match=part):
            await client.list_tools()


async def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    async with stdio(surroundings(tmp_path, HOME=str(tmp_path)), "--url", "http://127.0.0.1:9") as client:
        with pytest.raises(MCPError, match=r"No Cloche server answers at http://127\.0\.0\.1:9"):
            await client.list_tools()


# install


def install(home: Path, *words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    surrounding = {**surroundings(home), "HOME": str(home), **env}
    return subprocess.run(
        [*COMMAND, "install", *words],
        env=surrounding,
        cwd=cwd or home,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    ("system", "name", "expected"),
    [
        ("linux", "claude", "settings/Claude/claude_desktop_config.json"),
        ("darwin", "claude", "home/Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", "claude", "roaming/Claude/claude_desktop_config.json"),
        ("linux", "claude-code", "home/.claude.json"),
        ("linux", "cursor", "home/.cursor/mcp.json"),
        ("win32", "cursor", "home/.cursor/mcp.json"),
        ("linux", "vscode", "settings/Code/User/mcp.json"),
        ("darwin", "vscode", "home/Library/Application Support/Code/User/mcp.json"),
        ("win32", "vscode", "roaming/Code/User/mcp.json"),
        ("linux", "windsurf", "home/.codeium/windsurf/mcp_config.json"),
        ("linux", "gemini", "home/.gemini/settings.json"),
    ],
)
def test_where_each_client_keeps_its_configuration(tmp_path: Path, system: str, name: str, expected: str) -> None:
    environ = {
        "HOME": str(tmp_path / "home"),
        "USERPROFILE": str(tmp_path / "home"),
        "APPDATA": str(tmp_path / "roaming"),
        "XDG_CONFIG_HOME": str(tmp_path / "settings"),
    }
    place = Place.here(system, environ, tmp_path / "project")
    assert CLIENTS[name].file(place, in_project=False) == tmp_path / expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-code", ".mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".vscode/mcp.json"),
        ("gemini", ".gemini/settings.json"),
    ],
)
def test_where_a_project_keeps_it(tmp_path: Path, name: str, expected: str) -> None:
    done = install(tmp_path, "--client", name, "--project", "--yes")
    assert done.returncode == 0, done.stderr
    settings = json.loads((tmp_path / expected).read_text())
    assert list(settings) == [CLIENTS[name].key]


def test_what_is_written_starts_a_server(jail: None, tmp_path: Path) -> None:
    done = install(tmp_path, "--client", "cursor", "--yes")
    assert done.returncode == 0, done.stderr
    path = tmp_path / ".cursor" / "mcp.json"
    assert f"+++ {path}" in done.stdout
    entry = json.loads(path.read_text())["mcpServers"]["cloche"]
    answered = subprocess.run(
        [entry["command"], *entry["args"]],
        input=json.dumps(HELLO) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        env=surroundings(tmp_path),
    )
    assert json.loads(answered.stdout)["result"]["serverInfo"]["name"] == "cloche"


def test_everything_else_in_the_file_stays_and_a_backup_is_kept(tmp_path: Path) -> None:
    path = tmp_path / ".cursor" / "mcp.json"
    path.parent.mkdir()
    before = '{"other": [1, "ü"], "mcpServers": {"mine": {"command": "x"}}, "last": null}'
    path.write_text(before)
    path.chmod(0o640)
    assert install(tmp_path, "--client", "cursor", "--yes").returncode == 0
    settings = json.loads(path.read_text())
    assert list(settings) == ["other", "mcpServers", "last"]
    assert settings["other"] == [1, "ü"]
    assert list(settings["mcpServers"]) == ["mine", "cloche"]
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.with_name("mcp.json.bak1").read_text() == before
    again = install(tmp_path, "--client", "cursor", "--yes")
    assert "already has this entry" in again.stdout
    assert not path.with_name("mcp.json.bak2").exists()


@pytest.mark.parametrize(
    ("contents", "part"),
    [
        ("{ // a comment\n}", "not plain JSON"),
        ("[]", "does not contain a JSON object"),
        ('{"mcpServers": []}', "is not a JSON object"),
        ("{\xff", "not plain JSON"),
    ],
)
def test_a_file_that_is_not_understood_is_left_alone(tmp_path: Path, contents: str, part: str) -> None:
    path = tmp_path / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(contents)
    done = install(tmp_path, "--client", "cursor", "--yes")
    assert done.returncode == 125
    assert part in done.stderr
    assert "was not changed" in done.stderr
    assert path.read_text() == contents
    assert [file.name for file in path.parent.iterdir()] == ["mcp.json"]


def test_nothing_is_written_unless_somebody_agrees(tmp_path: Path) -> None:
    done = install(tmp_path, "--client", "cursor")
    assert done.returncode == 125
    assert "--yes" in done.stderr
    assert "mcpServers" in done.stdout  # it was shown
    assert not (tmp_path / ".cursor").exists()
    with_print = install(tmp_path, "--client", "vscode", "--print", "--name", "box")
    assert list(json.loads(with_print.stdout)["servers"]) == ["box"]
    assert not (tmp_path / ".config").exists()


def test_the_key_is_written_and_not_shown(tmp_path: Path) -> None:
    words = ("--client", "claude-code", "--yes", "--url", "http://example.test:7500/mcp")
    done = install(tmp_path, *words, CLOCHE_API_KEY="cloche_secret")
    assert done.returncode == 0, done.stderr
    assert "cloche_secret" not in done.stdout + done.stderr
    path = tmp_path / ".claude.json"
    assert json.loads(path.read_text())["mcpServers"]["cloche"] == {
        "type": "http",
        "url": "http://example.test:7500/mcp",
        "headers": {"Authorization": "Bearer cloche_secret"},
    }
    assert path.stat().st_mode & 0o777 == 0o600


def test_that_no_key_is_known_is_said(tmp_path: Path) -> None:
    done = install(tmp_path, "--client", "cursor", "--print", "--url", "http://example.test:7500")
    assert json.loads(done.stdout)["mcpServers"]["cloche"] == {"url": "http://example.test:7500/mcp"}
    assert "CLOCHE_API_KEY" in done.stderr


def test_a_client_that_only_starts_commands_gets_a_bridge() -> None:
    entry = CLIENTS["claude"].entry(["/bin/cloche"], "http://example.test", "k")
    assert entry == {
        "command": "/bin/cloche",
        "args": ["mcp", "--url", "http://example.test"],
        "env": {"CLOCHE_API_KEY": "k"},
    }
    assert CLIENTS["gemini"].entry(["c"], "http://example.test", "") == {"httpUrl": "http://example.test/mcp"}


def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles.json", tmp_path / "link.json"
    real.write_text("{}")
    link.symlink_to(real)
    mcp_clients.write(link, '{"a": 1}')
    assert link.is_symlink()
    assert real.read_text() == '{"a": 1}'


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--client", "claude", "--project", "--yes"), "no configuration per project"),
        (("--client", "emacs"), "no value of --client"),
        (("--client", "cursor", "--url", "ftp://x"), "not a valid server address"),
    ],
)
def test_what_makes_no_sense_is_told(tmp_path: Path, words: tuple[str, ...], part: str) -> None:
    done = install(tmp_path, *words)
    assert done.returncode in (2, 125)
    assert part in done.stderr
