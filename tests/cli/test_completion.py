"""`cloche completion`: real shells complete commands, options and values."""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import CLOCHE
from tests.cli.terminal import Terminal
from tests.conftest import Server

import cloche
from cloche.cli import completions
from cloche.cli.main import COMMANDS, parser

NOWHERE = {"url": "http://127.0.0.1:1", "api_key": "none"}
# Each prints its words instead of running, so that a test sees the command line as the shell has completed it.
BEGIN = {
    "bash": """cloche() { if [ "$1" = completion ]; then command cloche "$@"; else printf '<%s>' "$@"; fi; }
eval "$(cloche completion bash)"; PS1=; echo re''ady
""",
    "zsh": """cloche() { if [ "$1" = completion ]; then command cloche "$@"; else printf '<%s>' "$@"; fi; }
autoload -Uz compinit && compinit -u -D; eval "$(cloche completion zsh)"; PS1=; echo re''ady
""",
    "fish": """function cloche; printf '<%s>' $argv; end
command cloche completion fish | source; function fish_prompt; end; echo re''ady
""",
}
QUIET = {"bash": ("--norc", "--noprofile"), "zsh": ("-f",), "fish": ("--no-config", "--private")}


def offered(*words: str) -> list[str]:
    return [value for value, _ in completions.offer(words).values]


def actions(top: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, argparse.Action]]:
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from actions(below, f"{path} {name}")
        elif action.nargs != 0 and action.choices is None and action.help != argparse.SUPPRESS:
            yield path, action


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_options_and_values(server: Server, tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{shell} is not installed")
    (tmp_path / "program.py").touch()
    (tmp_path / "results").mkdir()
    path = f"{Path(CLOCHE).parent}:{os.environ['PATH']}"
    env = {"CLOCHE_URL": server.url, "CLOCHE_API_KEY": server.key, "PATH": path, "HOME": str(tmp_path), "TERM": "xterm"}
    metadata = {"name": f"inside-{shell}"}
    with cloche.Sandbox(url=server.url, api_key=server.key, metadata=metadata) as box:
        box.files.mkdir("some-folder")
        first, *more = QUIET[shell]
        terminal = Terminal(*more, program=shell, command=first, env=env, cwd=tmp_path)
        for line in BEGIN[shell].splitlines():
            terminal.type(line.encode() + b"\r")
        terminal.until(b"ready")
        for keys, words in (
            ("cloche languag\tinst\trub\t", "<languages><install><ruby>"),
            ("cloche run --lang\tpyth\tprog\t", "<run><--language><python><program.py>"),
            ("cloche run --out=resu\t", "<run><--out=results"),
            (f"cloche exec inside-{shell[:3]}\tls", f"<exec><inside-{shell}><ls>"),
            (f"cloche cp inside-{shell}:some\t.", f"<cp><inside-{shell}:some-folder/.>"),
        ):
            terminal.type(keys.encode() + b"\r").until(words.encode())
        terminal.type(b"exit\r")
        assert terminal.end() == 0


def test_every_value_is_completed_or_known_to_be_the_callers_own() -> None:
    unknown = {
        f"{path} {placeholder}"
        for path, action in actions(parser([""]))
        for placeholder in [str(action.metavar or action.dest.upper())]
        if completions.values_of(placeholder, "", NOWHERE) is None
    }
    assert not unknown, f"completions.values_of does not know {unknown}"


def test_every_command_and_every_option_is_completed() -> None:
    assert offered("") == list(COMMANDS)
    for command in COMMANDS:
        top = parser([command])
        (below,) = (action for action in top._actions if isinstance(action, argparse._SubParsersAction))
        options = [name for action in below.choices[command]._actions for name in action.option_strings]
        assert offered(command, "-") == options


def test_values_follow_their_options_and_arguments() -> None:
    assert offered("run", "--isolation", "") == ["auto", "jail", "e2b"]
    assert offered("run", "--isolation=j") == ["--isolation=jail"]
    assert offered("run", "--check", "b") == ["block"]
    assert offered("run", "-l", "python", "-c", "1", "--js") == ["--json"]
    assert offered("new", "go") == ["go-cli"]
    assert offered("serve", "--log-format", "") == ["text", "json"]
    assert offered("mcp", "install", "--client", "clau") == ["claude", "claude-code"]
    assert offered("languages", "install", "ruby", "ru") == ["ruby", "rust"]
    assert completions.offer(["run", "program.py", "--"]) == completions.Offer([], "files")  # the program's own
    assert completions.offer(["exec", "box", "ls", "-"]) == completions.NOTHING
    assert completions.offer(["run", "--mount", "a:"]) == completions.NOTHING
    assert completions.offer(["run", "--out", ""]).paths == "folders"


def test_a_line_is_split_as_a_shell_would() -> None:
    assert completions.split("cloche run ") == ["cloche", "run", ""]
    assert completions.split(r"""cloche run a\ b 'c "d' "e \" f" "half a""") == [
        *("cloche", "run", "a b", 'c "d', 'e " f', "half a"),
    ]


def test_a_tab_waits_a_second_for_a_server_and_no_longer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connects, and never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        environment = {
            **os.environ,
            "CLOCHE_URL": url,
            "CLOCHE_API_KEY": "none",
        }
        began = time.monotonic()
        done = subprocess.run([CLOCHE, "completion", "bash", "cloche exec "], env=environment, capture_output=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert time.monotonic() - began < 20  # an answer would be awaited for two minutes


def test_no_name_from_a_server_can_do_anything_in_a_shell(server: Server) -> None:
    given = {"url": server.url, "api_key": server.key}
    name = "$(touch owned)"
    with cloche.Sandbox(url=server.url, api_key=server.key, metadata={"name": name}) as box:
        box.files.write("odd/a;b", "")
        box.files.write("odd/$(x)", "")
        box.files.write("odd/fine", "")
        assert box.id is not None
        found = completions.values_of("SANDBOX", "", given)
        assert found is not None
        assert name not in dict(found.values)
        assert box.id[:16] in dict(found.values)
        inside = completions.values_of("SOURCE", f"{box.id}:odd/", given)
        assert inside == completions.Offer([(f"{box.id}:odd/fine", "")])


def test_an_unknown_shell_is_refused() -> None:
    done = subprocess.run([CLOCHE, "completion", "zhs"], capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()[1]) == (2, "Did you mean zsh? See `cloche completion --help`.")
