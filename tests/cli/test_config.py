"""`cloche config` and `cloche key`, as a shell uses them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from cloche.configuration import FIELDS
from cloche.policy import key_file

CLOCHE = str(Path(sys.prefix) / "bin" / "cloche")


@pytest.fixture
def environ(tmp_path):
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}


def cloche(environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([CLOCHE, *words], env=environ, capture_output=True, text=True, timeout=60)


def test_every_value_is_printed_with_its_source(environ, tmp_path):
    (tmp_path / "my.toml").write_text('max_memory = "2G"\n')

    done = cloche({**environ, "CLOCHE_QUEUE": "5"}, "config", "--config", str(tmp_path / "my.toml"), "--no-auth")

    rows = {line.split()[0]: line.split(None, 2)[1:] for line in done.stdout.splitlines()}
    assert list(rows) == list(FIELDS)
    assert rows["max_memory"] == ["2G", f"file {tmp_path / 'my.toml'}"]
    assert rows["queue"] == ["5", "environment CLOCHE_QUEUE"]
    assert rows["auth"] == ["no", "flag --no-auth"]
    assert rows["port"] == ["7500", "default"]
    assert (done.returncode, done.stderr) == (0, "")
    assert len({line.index(rows[name][1]) for name, line in zip(rows, done.stdout.splitlines(), strict=True)}) == 1


def test_json(environ, tmp_path):
    done = cloche(environ, "config", "--json", "--hosts", "a", "--hosts", "b")

    shown = json.loads(done.stdout)
    assert shown["hosts"] == {"value": ["a", "b"], "source": "flag --hosts"}
    assert shown["max_memory"] == {"value": 8 << 30, "source": "default"}
    assert shown["data_dir"]["value"] == str(tmp_path / ".local/share/cloche")
    assert list(shown) == list(FIELDS)


def test_a_terminal_gets_a_table(environ):
    reader, terminal = pty.openpty()
    try:
        subprocess.run(
            [CLOCHE, "config", "--port", "7"],
            env={**environ, "TERM": "xterm-256color", "COLUMNS": "120"},
            stdout=terminal,
            timeout=60,
            check=True,
        )
        os.close(terminal)
        text = ""
        while "mounts" not in text:
            text += os.read(reader, 65536).decode()
    finally:
        os.close(reader)

    assert "\x1b[" in text
    assert "flag --port" in text


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_a_password_is_not_printed(environ, how):
    done = cloche({**environ, "CLOCHE_DATABASE_URL": "postgresql://ada:secret@db/x"}, "config", *how)

    assert "postgresql://ada:***@db/x" in done.stdout
    assert "secret" not in done.stdout + done.stderr


def test_what_makes_no_sense_is_told(environ):
    done = cloche({**environ, "CLOCHE_PORT": "seven"}, "config")

    assert (done.stdout, done.returncode) == ("", 125)
    assert done.stderr.startswith("cloche: port = 'seven' (environment CLOCHE_PORT) is not a whole number.\n")


def test_a_variable_that_is_nearly_ours_is_told(environ):
    done = cloche({**environ, "CLOCHE_PROT": "7"}, "config")

    assert done.returncode == 0
    assert done.stderr == "cloche: CLOCHE_PROT is not a setting.\nDid you mean CLOCHE_PORT?\n"


def test_the_key_is_printed(environ, tmp_path):
    secret = key_file.new_secret()
    key_file.make(tmp_path / ".local/share/cloche/key", secret)
    elsewhere = key_file.new_secret()
    key_file.make(tmp_path / "elsewhere" / "key", elsewhere)

    assert cloche(environ, "key").stdout == f"{secret}\n"
    assert cloche(environ, "key", "--data-dir", str(tmp_path / "elsewhere")).stdout == f"{elsewhere}\n"
    assert cloche({**environ, "CLOCHE_DATA_DIR": str(tmp_path / "elsewhere")}, "key").stdout == f"{elsewhere}\n"


def test_without_a_server_there_is_no_key(environ, tmp_path):
    done = cloche(environ, "key")

    assert (done.stdout, done.returncode) == ("", 125)
    assert "no server has been started" in done.stderr
    assert "cloche serve" in done.stderr
    assert not (tmp_path / ".local").exists()


def test_a_key_that_others_can_read_is_not_printed(environ, tmp_path):
    path = tmp_path / ".local/share/cloche/key"
    key_file.make(path, key_file.new_secret())
    path.chmod(0o644)

    done = cloche(environ, "key")

    assert (done.stdout, done.returncode) == ("", 125)
    assert f"chmod 600 {path}" in done.stderr
