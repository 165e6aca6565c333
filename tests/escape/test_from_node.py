"""T1, T2, T6, T8, T9, T10, T12 from Node: what JavaScript reaches for gets it no further than anything else."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess

import pytest

import cloche
from cloche import settings
from cloche.blocking.walls.jail.wall import Jail
from cloche.walls.jail.nursery_client import Nurseries


@pytest.fixture(scope="module", autouse=True)
def node() -> str:
    found = shutil.which("node")
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs node on the host")
    return found


def bare(node: str, code: str, **options: object) -> str:
    """What it prints as an ordinary process of this host."""
    done = subprocess.run([node, "-e", code], capture_output=True, text=True, timeout=20, check=True, **options)  # type: ignore[call-overload]
    return str(done.stdout.strip())


def test_no_file_of_the_host_can_be_read(attack, planted, node):
    code = f"""
const fs = require("fs");
for (const path of ["{planted}", "/proc/1/root{planted}", "/proc/self/root/..{planted}"]) {{
    try {{ console.log(fs.readFileSync(path, "utf8")); }} catch (problem) {{ console.log(problem.code); }}
}}
"""
    assert set(attack(code, language="javascript").split("\n")) <= {"ENOENT", "EACCES"}
    assert bare(node, code).startswith("a secret of the host")


def test_a_service_on_the_hosts_loopback_cannot_be_reached(attack):
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"""
const attempt = require("net").connect({server.getsockname()[1]}, "127.0.0.1");
attempt.on("connect", () => {{ console.log("connected"); attempt.destroy(); }});
attempt.on("error", problem => console.log(problem.code));
"""
        assert attack(code, language="javascript") == "ECONNREFUSED"
        assert attack(code, "network", language="javascript") == "connected"


def test_no_secret_of_the_engine_is_in_a_report_or_an_environment(monkeypatch, node):
    canary = secrets.token_hex(16)
    monkeypatch.setenv("A_KEY", canary)
    half, rest = canary[:16], canary[16:]  # so that the program itself is no place to find it
    code = f"""
const fs = require("fs");
const wanted = "{half}" + "{rest}", seen = [];
if (JSON.stringify(process.report.getReport()).includes(wanted)) seen.push("report");
for (const name of fs.readdirSync("/proc").filter(Number)) {{
    for (const what of ["environ", "cmdline"]) {{
        try {{
            if (fs.readFileSync(`/proc/${{name}}/${{what}}`, "latin1").includes(wanted)) seen.push(what);
        }} catch {{ }}
    }}
}}
console.log(JSON.stringify([...new Set(seen)].sort()));
"""
    nurseries = Nurseries(settings.load())  # started while the canary is there
    try:
        assert cloche.run(code, language="javascript", wall=Jail(nurseries)).stdout == "[]\n"
    finally:
        nurseries.close()
    assert bare(node, code) == '["environ","report"]'


def test_no_descriptor_leaks_into_it(attack, node):
    code = """
const fs = require("fs");
for (const number of fs.readdirSync("/proc/self/fd")) {
    try {
        const what = fs.readlinkSync("/proc/self/fd/" + number);
        if (!/^(pipe|anon_inode):|^.proc.\\d+.fd$|^.dev.null$/.test(what)) console.log("leaked", number, what);
    } catch { }
}
"""
    assert attack(code, language="javascript") == ""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert f"leaked {theirs.fileno()} socket:" in bare(node, code, pass_fds=(theirs.fileno(),))


def test_its_addons_and_children_call_the_kernel_in_vain(attack):
    code = """
const { spawnSync } = require("child_process");
for (const words of [["unshare", "-Ur", "id"], ["mount", "-t", "tmpfs", "x", "/tmp"]]) {
    const ended = spawnSync(words[0], words.slice(1));
    console.log(words[0], ended.status === 0 ? "done" : "refused");
}
try { process.kill(1, "SIGKILL"); } catch { }
try { process.setuid(0); console.log("root"); } catch (problem) { console.log(problem.code); }
"""
    held = attack(code, language="javascript").split("\n")
    assert held[:2] == ["unshare refused", "mount refused"]
    # A Node whose libuv knows io_uring refuses by itself.
    assert held[2:] in (["EPERM"], ["ERR_INVALID_STATE"])
    # Its map of users is written to /proc.
    assert attack(code, "filter", "proc", language="javascript").startswith("unshare done")


def test_what_others_run_cannot_be_changed(attack):
    code = """
const fs = require("fs");
for (const path of [process.execPath, "/opt/kernels/javascript.js", "/usr/lib/node_modules/x.js", "/opt/prepared/x"]) {
    try { fs.appendFileSync(path, "// mine"); console.log("wrote", path); } catch { }
    try { fs.renameSync(path, path + ".old"); console.log("moved", path); } catch { }
}
fs.writeFileSync("/sandbox/own.js", "mine");
console.log(fs.readFileSync("/sandbox/own.js", "utf8"));
"""
    assert attack(code, language="javascript") == "mine"
