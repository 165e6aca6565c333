"""What the host's own tools say about their indexes, without what only the host may know."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cloche.packages import cargo_registry, maven_repository, npm_configuration
from cloche.packages import indexes as package_indexes

SAID = {
    "pip": ["index https://me:canary@pip.example/simple", "extra https://canary@more.example:8443/simple"],
    "go": ["https://go.example|https://me:canary@other.example:444/x,direct|off"],
}


def test_no_credentials_of_the_host_are_in_the_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def lines(command: Sequence[str]) -> list[str]:
        if "GOSUMDB" in command:
            return ["sum.example+key https://me:canary@sum.example"]
        return SAID.get(command[0], SAID["pip"])

    monkeypatch.setattr(package_indexes, "_lines", lines)
    monkeypatch.setattr(package_indexes, "_pip_said", None)
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        monkeypatch.setenv(name, "https://canary@uv.example/simple")
    monkeypatch.setattr(package_indexes, "_of_cargo", list)
    monkeypatch.setattr(cargo_registry, "addresses", list)
    monkeypatch.setattr(maven_repository, "address", str)
    registries = npm_configuration.NpmConfiguration(registries={"": "https://me:canary@npm.example/"})
    monkeypatch.setattr(npm_configuration, "find", lambda: registries)
    found = package_indexes._ask()
    assert "canary" not in repr(found)
    assert found.go == "https://go.example,https://other.example:444/x"
    hosts = [f"{name}.example" for name in ("pip", "more", "npm", "go", "other", "sum", "uv")]
    assert [host for host, _ in found.hosts] == hosts
