"""`cloche doctor` on hosts that allow less, made from this one; each in processes that end with the test."""

from __future__ import annotations

import os
import subprocess
import sys
from json import loads
from typing import Any

import pytest

# Under our own filter, as under that of a container: no unshare, no mount.
_FILTERED = """
import os, sys
from cloche.walls.jail import filter, linux
linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
filter.load(filter.program())
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""

# Root of a user namespace that maps nobody else, as in a small container; the rest is as on the host.
_FEW_USERS = """
import os, sys
from cloche.walls.jail import linux
uid, gid = os.geteuid(), os.getegid()
linux.unshare(linux.NEWUSER)
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
if os.environ.pop("NO_MORE", ""):
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def doctor(preparation: str, **variables: str) -> tuple[int, dict[str, Any]]:
    """What it says after `preparation`."""
    argv = [sys.executable, "-c", preparation, "-m", "cloche.cli.main", "doctor", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **variables}, timeout=60)
    assert done.stdout, done.stderr
    return done.returncode, loads(done.stdout)


def row(told: dict[str, Any], name: str) -> dict[str, str]:
    (found,) = [check for check in told["checks"] if check["name"] == name]
    return dict(found)


def test_the_filter_of_an_outer_container_is_named():
    code, told = doctor(_FILTERED)
    assert code == 1
    assert "filter of an outer container" in row(told, "user namespaces")["meaning"]
    assert "seccomp=unconfined" in row(told, "user namespaces")["remedy"]


def test_the_wall_says_why_it_could_not_be_built():
    _, told = doctor(_FILTERED)
    assert "unshare: Operation not permitted" in told["walls"][0]["reason"]


def test_a_limit_on_user_namespaces_is_named(jail):
    code, told = doctor(_FEW_USERS, NO_MORE="1")
    assert code == 1
    assert "user.max_user_namespaces is 0" in row(told, "user namespaces")["meaning"]


def test_root_of_a_small_container_can_run_but_weaker(jail):
    code, told = doctor(_FEW_USERS)
    assert code == 0
    assert row(told, "host user")["state"] == "weaker"
    assert "few users mapped" in row(told, "host user")["meaning"]


_WITHOUT_CAPABILITY = """
import os, sys
from cloche.walls.jail import linux
for capability in os.environ["WITHOUT"].split():
    linux.prctl(linux.PR_CAPBSET_DROP, int(capability))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
_NET_ADMIN, _SYS_PTRACE, _SYS_ADMIN, _MKNOD, _SETFCAP = "12", "19", "21", "27", "31"
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up")


@only_root
def test_root_without_sys_admin_can_run_but_weaker(jail):
    code, told = doctor(_WITHOUT_CAPABILITY, WITHOUT=_SYS_ADMIN)
    assert code == 0
    assert row(told, "host user")["state"] == "weaker"


@only_root
@pytest.mark.parametrize("capability", [_NET_ADMIN, _SYS_PTRACE, _MKNOD])
def test_root_that_lacks_a_part_of_its_might_is_no_more_than_a_user(jail, capability):
    code, told = doctor(_WITHOUT_CAPABILITY, WITHOUT=capability)
    assert code == 0, told["walls"]
    assert row(told, "host user")["state"] == "weaker"
    assert "--cap-add NET_ADMIN" in row(told, "host user")["remedy"]


@only_root
def test_root_that_may_not_map_itself_is_told_which_capability_is_missing():
    code, told = doctor(_WITHOUT_CAPABILITY, WITHOUT=f"{_SYS_ADMIN} {_SETFCAP}")
    assert code == 1
    assert "CAP_SETFCAP" in row(told, "user namespaces")["meaning"]
