"""Requests for the dependencies of projects: they come from inside a sandbox, so everything is checked."""

from __future__ import annotations

from typing import Any

import pytest

from cloche.errors import InvalidRun
from cloche.model.manifests import manifests_of

GOOD: dict[str, Any] = {"ecosystem": "cargo", "files": {"app/Cargo.toml": "", "Cargo.lock": ""}, "folder": "app"}


def test_a_request_is_read() -> None:
    found = manifests_of({**GOOD, "command": ["add", "itoa", "-F", "x", "--no-default-features"]})
    assert (found.ecosystem, found.folder, found.command[:2]) == ("cargo", "app", ("add", "itoa"))


@pytest.mark.parametrize(
    "change",
    [
        {"ecosystem": "python"},
        {"files": {}},
        {"files": {"src/main.rs": "fn main() {}"}},
        {"files": {"../Cargo.toml": ""}},
        {"files": {"/etc/Cargo.toml": ""}},
        {"files": {"a//Cargo.toml": ""}},
        {"files": {".cargo/config.toml": ""}},
        {"files": {"Cargo.toml": 1}},
        {"files": {"Cargo.toml": "#" * (1 << 20)}},
        {"folder": "../x"},
        {"command": "add itoa"},
        {"command": ["build"]},
        {"command": ["add", "itoa", "--config", "x=1"]},
        {"command": ["update", "--config=x=1"]},
        {"command": ["add", "x" * 2000]},
        {"imports": ["a b"]},
    ],
)
def test_an_odd_request_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidRun):
        manifests_of({**GOOD, **change})


def test_options_of_go_that_name_programs_are_refused() -> None:
    request = {"ecosystem": "go", "files": {"go.mod": ""}, "folder": ""}
    assert manifests_of({**request, "command": ["get", "-u", "example.org/x@v1.0.0"]}).command[1] == "-u"
    with pytest.raises(InvalidRun, match="toolexec"):
        manifests_of({**request, "command": ["get", "-toolexec=/bin/sh", "example.org/x"]})
