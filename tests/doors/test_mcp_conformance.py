"""The conformance tester of the MCP project, run against a real server, for what we offer.

Most of its scenarios want a server with tools, prompts and resources made for the test (`test_simple_text` and the
like); those cannot say anything about ours and are left out, each with its reason.  A scenario that is neither run nor
left out, because a newer tester has it, is a failure.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import Server

STABLE, NEXT = "0.1.16", "0.2.0-alpha.12"  # the latest release, and the one that knows protocol 2026-07-28
NODE = "22.23.3"  # the tester needs 22; where the host has an older one, this comes from the same place

RUN = {
    STABLE: [
        "server-initialize",
        "ping",
        "tools-list",
        "resources-list",
        "server-sse-multiple-streams",
        "server-sse-polling",
        "dns-rebinding-protection",
    ],
    NEXT: [
        "server-initialize",
        "server-session-lifecycle",
        "server-stateless",
        "ping",
        "tools-list",
        "resources-list",
        "server-sse-multiple-streams",
        "server-sse-polling",
        "sep-2164-resource-not-found",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "input-required-result-unsupported-methods",
        "input-required-result-ignore-extra-params",
    ],
}
LEFT_OUT = {
    r"tools-call-.*|json-schema-2020-12": "wants tools that are made for the test",
    r"resources-read-.*|resources-templates-read": "wants resources that are made for the test",
    r"http-custom-header-server-validation": "wants a tool with x-mcp-header arguments; we have none",
    r"prompts-.*": "we offer no prompts",
    r"logging-.*": "we offer no log messages; protocol 2026-07-28 has done away with them",
    r"completion-complete": "we offer no completion",
    r"resources-(un)?subscribe": "we offer no subscriptions",
    r"elicitation-.*|input-required-result-.*": "we ask clients for nothing",
    r"tasks-.*|sep-2640-.*": "an extension that we do not offer",
}
# Checks of scenarios that we do run, for what we do not offer.
EXCUSED = {
    "caching": ["sep-2549-prompts-list-caching-hints"],
}


@pytest.fixture(scope="module")
def tester(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The tester, installed into a folder of the test's; no part of the repository."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("no Node.js on this host")
    folder = tmp_path_factory.mktemp("conformance")
    (folder / "package.json").write_text('{"private": true}')
    name = "@modelcontextprotocol/conformance"
    packages = [f"tester-{version}@npm:{name}@{version}" for version in (STABLE, NEXT)]
    installed_version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(installed_version[1:].split(".")[0]) < 22:
        packages.append(f"node@{NODE}")
    command = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *packages]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    except subprocess.TimeoutExpired:
        pytest.skip("the tester could not be fetched in time")
    if done.returncode:
        pytest.skip(f"the tester could not be fetched: {done.stderr[-300:]}")
    own = folder / "node_modules" / ".bin" / "node"
    program = str(own) if own.exists() else node

    def run(version: str, *words: str) -> subprocess.CompletedProcess[str]:
        script = folder / "node_modules" / f"tester-{version}" / "dist" / "index.js"
        surroundings = {**os.environ, "NO_COLOR": "1"}
        return subprocess.run(
            [program, str(script), *words], capture_output=True, text=True, timeout=120, env=surroundings
        )

    return run


@pytest.fixture(scope="module")
def open_server(jail: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that asks for no key: the tester cannot send one."""
    running = Server(tmp_path_factory.mktemp("open"), "--no-auth")
    yield running
    running.stop()


@pytest.mark.parametrize("version", [STABLE, NEXT])
def test_every_scenario_is_run_or_left_out_for_a_reason(
    tester: Callable[..., subprocess.CompletedProcess[str]], version: str
) -> None:
    listed = tester(version, "list").stdout.split("Client scenarios")[0]
    scenarios = re.findall(r"^\s*- (\S+)", listed, re.M)
    assert len(scenarios) > 20
    assert set(RUN[version]) <= set(scenarios)
    rest = [name for name in scenarios if name not in RUN[version]]
    assert [name for name in rest if not any(re.fullmatch(pattern, name) for pattern in LEFT_OUT)] == []


@pytest.mark.parametrize(
    ("version", "scenario"), [(version, scenario) for version, scenarios in RUN.items() for scenario in scenarios]
)
def test_the_conformance_tester_is_content(
    tester: Callable[..., subprocess.CompletedProcess[str]],
    open_server: Server,
    tmp_path: Path,
    version: str,
    scenario: str,
) -> None:
    done = tester(version, "server", "--url", f"{open_server.url}/mcp", "--scenario", scenario, "-o", str(tmp_path))
    reports = list(tmp_path.glob("*/checks.json"))
    assert len(reports) == 1, done.stdout + done.stderr
    checks = json.loads(reports[0].read_text())
    failed = [
        f"{check['id']}: {check.get('errorMessage')}"
        for check in checks
        if check["status"] == "FAILURE"
        and check["id"] not in EXCUSED.get(scenario, ())
        and not check.get("errorMessage", "").startswith("Not testable")  # for want of a tool made for the test
    ]
    assert failed == []
    assert any(check["status"] == "SUCCESS" for check in checks) or scenario == "server-sse-polling"
