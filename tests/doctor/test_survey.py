"""The rows of `cloche doctor`: each state is reached from what a host may say."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import pytest

from cloche.blocking.walls import registry
from cloche.doctor import namespaces, survey, trials
from cloche.doctor.check import MISSING, OK, WEAKER, Check
from cloche.doctor.namespaces import NamespaceFacts
from cloche.languages.availability import Availability
from cloche.settings import Settings

EPERM = {"step": "unshare", "errno": errno.EPERM, "failed": "unshare: Operation not permitted"}


@pytest.mark.parametrize(
    ("release", "machine", "state"),
    [
        ("6.18.44-fc-v445", "x86_64", OK),
        ("5.12.0", "aarch64", OK),
        ("5.10.0-28-amd64", "x86_64", MISSING),
        ("4.19+", "x86_64", MISSING),
        ("6.1.0", "riscv64", MISSING),
    ],
)
def test_an_old_kernel_or_an_unknown_machine_is_missing(release, machine, state):
    assert survey.kernel(release, machine).state == state


@pytest.mark.parametrize(
    ("number", "step", "facts", "named"),
    [
        (errno.ENOSPC, "unshare", NamespaceFacts(max_user_namespaces=0), "user.max_user_namespaces"),
        (errno.ENOSPC, "unshare", NamespaceFacts(max_user_namespaces=100), "user.max_user_namespaces"),
        (errno.EPERM, "unshare", NamespaceFacts(100, unprivileged_userns_clone=0), "kernel.unprivileged_userns_clone"),
        (errno.EPERM, "use", NamespaceFacts(100, apparmor_restrict=1), "kernel.apparmor_restrict_unprivileged_userns"),
        (errno.EPERM, "use", NamespaceFacts(100, apparmor_restrict=1, under_seccomp=True), "AppArmor"),
        (
            errno.EPERM,
            "unshare",
            NamespaceFacts(100, apparmor_restrict=1, under_seccomp=True),
            "system-call filter of an outer",
        ),
        (
            errno.EPERM,
            "unshare",
            NamespaceFacts(100, apparmor_restrict=0, under_seccomp=True),
            "system-call filter of an outer",
        ),
        (errno.EPERM, "map", NamespaceFacts(100, without_setfcap=True), "CAP_SETFCAP"),
        (errno.EPERM, "unshare", NamespaceFacts(100, in_chroot=True), "chroot"),
        (errno.EPERM, "unshare", NamespaceFacts(100, in_container=True), "outer container"),
        (errno.EINVAL, "unshare", NamespaceFacts(), "built without user namespaces"),
        (errno.EPERM, "unshare", NamespaceFacts(100), "security module"),
    ],
)
def test_what_forbids_user_namespaces_is_named_with_a_remedy(number, step, facts, named):
    reason, remedy = namespaces.why_not(number, step, facts)
    assert named in reason
    assert remedy


def test_a_failed_trial_makes_user_namespaces_missing():
    check = namespaces.user_namespaces(EPERM, NamespaceFacts(100, unprivileged_userns_clone=0))
    assert check.state == MISSING
    assert "Operation not permitted" in check.meaning
    assert "sysctl -w kernel.unprivileged_userns_clone=1" in check.remedy
    assert namespaces.user_namespaces({}, NamespaceFacts()).state == OK


def test_facts_are_read_from_proc(tmp_path: Path):
    (tmp_path / "proc/sys/user").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel").mkdir()
    (tmp_path / "proc/self").mkdir()
    (tmp_path / "proc/sys/user/max_user_namespaces").write_text("0\n")
    (tmp_path / "proc/sys/kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    (tmp_path / "proc/self/status").write_text("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n")
    (tmp_path / "proc/self/mountinfo").write_text("22 1 8:1 /x /proc rw - proc proc rw\n")
    (tmp_path / ".dockerenv").touch()
    assert namespaces.read_facts(f"{tmp_path}/") == NamespaceFacts(
        max_user_namespaces=0, apparmor_restrict=1, under_seccomp=True, in_container=True, in_chroot=True
    )


def test_nothing_is_assumed_where_proc_says_nothing(tmp_path: Path):
    assert namespaces.read_facts(f"{tmp_path}/") == NamespaceFacts()


def test_what_a_container_does_to_proc_is_a_fact(tmp_path: Path):
    (tmp_path / "proc/self/attr/apparmor").mkdir(parents=True)
    (tmp_path / "proc/self/attr/apparmor/current").write_text("docker-default (enforce)\n")
    mounts = "22 1 8:1 / / rw - ext4 a rw\n23 22 0:5 / /proc rw - proc proc rw\n24 23 0:6 / {} ro - tmpfs tmpfs rw\n"
    (tmp_path / "proc/self/mountinfo").write_text(mounts.format("/proc/kcore"))
    assert namespaces.read_facts(f"{tmp_path}/") == NamespaceFacts(covered_proc=True, apparmor_profile=True)
    (tmp_path / "proc/self/mountinfo").write_text(mounts.format("/proc/sys/fs/binfmt_misc"))
    (tmp_path / "proc/self/attr/apparmor/current").write_text("unconfined\n")
    assert namespaces.read_facts(f"{tmp_path}/") == NamespaceFacts()


def test_a_covered_proc_points_at_the_outer_container():
    check = namespaces.proc({"errno": errno.EPERM, "failed": "mount: Operation not permitted"}, NamespaceFacts())
    assert check.state == MISSING
    assert "systempaths=unconfined" in check.remedy
    assert namespaces.proc({"pid": "1"}, NamespaceFacts()).state == OK


def test_a_container_is_asked_for_what_stands_in_the_way_and_no_more():
    refused = {"errno": errno.EPERM, "failed": "mount: Operation not permitted"}
    remedy = namespaces.proc(refused, NamespaceFacts(covered_proc=True)).remedy
    assert "systempaths=unconfined" in remedy
    assert "seccomp" not in remedy
    assert "apparmor" not in remedy
    _, remedy = namespaces.why_not(
        errno.EPERM, "unshare", NamespaceFacts(100, under_seccomp=True, apparmor_profile=True)
    )
    assert "seccomp=unconfined --security-opt apparmor=unconfined, or" in remedy


def test_without_namespaces_there_is_no_word_about_a_covered_proc():
    refused = {"step": "namespaces", "errno": errno.EPERM, "failed": "unshare: Operation not permitted"}
    assert (
        namespaces.proc(refused, NamespaceFacts(covered_proc=True)).remedy == "See the row about user namespaces first."
    )


def test_seccomp_that_fails_is_missing():
    assert survey.seccomp({"failed": "PermissionError: seccomp"}).state == MISSING
    assert survey.seccomp({}).state == OK


@pytest.mark.parametrize(("abi", "state"), [(0, WEAKER), (1, WEAKER), (2, OK), (7, OK)])
def test_landlock_is_judged_by_its_version(abi, state):
    assert survey.landlock({"abi": abi}).state == state


def test_the_first_landlock_says_that_renames_fail():
    assert "renamed" in survey.landlock({"abi": 1}).meaning


def test_what_no_control_group_limits_is_weaker_and_says_why():
    told = {"controllers": {"memory": 2}, "missing": {"cpu": "Delegate=yes", "pids": "Delegate=yes"}}
    memory, cpu, processes = survey.control_groups(told)
    assert (memory.state, cpu.state, processes.state) == (OK, WEAKER, WEAKER)
    assert cpu.remedy == "Delegate=yes"
    assert "resource limit" in processes.meaning


def test_limits_are_weaker_when_control_groups_could_not_even_be_looked_for():
    assert [check.state for check in survey.control_groups({"failed": "OSError"})] == [WEAKER] * 3


def test_an_ordinary_user_is_weaker_than_root_and_told_so():
    assert survey.identity(0, {"privileged": True}).state == OK
    user = survey.identity(1000, {"privileged": False})
    assert user.state == WEAKER
    assert "share the caller's user (1000)" in user.meaning
    assert "CAP_SYS_ADMIN" in survey.identity(0, {"privileged": False}).meaning


def test_a_missing_environment_says_how_to_build_it(tmp_path: Path):
    check = survey.python_environment(str(tmp_path))
    assert check.state == MISSING
    assert "cloche setup" in check.remedy


@pytest.mark.parametrize(("run", "state"), [("1\n", WEAKER), ("0\n", OK), ("2\n", OK), (None, OK)])
def test_page_merging_is_weaker(run, state):
    assert survey.page_merging(run).state == state


def test_a_language_without_its_program_is_missing():
    states = [
        Availability("python", "Python", "ready", "3.12.1", "/home/env"),
        Availability(
            "go", "Go", "ready", "1.22", "/opt/go/bin/go", "Not prepared.", "cloche languages prepare go", False
        ),
        Availability("java", "Java", "old", "8", "/usr/bin/java", "8 is older than 17.", "Get another."),
        Availability("bash", "Bash", "ready", "5.2", "/opt/bash/bin/bash"),
        Availability("lua", "Lua", "installable", why="There is no lua.", remedy="cloche languages install lua"),
    ]
    found = {"python": "/opt/env/bin/python3", "go": "/opt/toolchains/go/bin/go", "java": "/usr/bin/java", "bash": None}
    rows = {check.name: check for check in survey.spoken(states, found)}
    assert {name: row.state for name, row in rows.items()} == {
        "python": OK,
        "go": OK,
        "java": WEAKER,
        "bash": MISSING,
        "lua": MISSING,
    }
    assert rows["python"].meaning == "Python 3.12.1: /opt/env/bin/python3 in the sandbox."
    assert rows["go"].remedy == "Not prepared. cloche languages prepare go"
    assert "cloche languages install bash" in rows["bash"].remedy
    assert rows["lua"].remedy == "cloche languages install lua"
    assert all(check.state == MISSING for check in survey.spoken(states, {}))


def test_every_trial_tells_something_and_leaves_this_process_alone():
    groups = Path("/proc/self/cgroup").read_text()
    told = survey.try_all()
    assert told.keys() == trials.TRIALS.keys()
    assert all("could not be tried" not in answer.get("failed", "") for answer in told.values())
    assert Path("/proc/self/cgroup").read_text() == groups


def test_trials_that_cannot_be_run_are_all_failures(monkeypatch):
    monkeypatch.setattr("sys._base_executable", "/nonexistent/python")
    assert all("failed" in answer for answer in survey.try_all().values())


def test_the_decisive_check_starts_a_sandbox(jail):
    wall, found = survey.try_wall(registry.find("jail"), Settings(pool=0, warm=False))
    assert wall.available
    assert wall.first_s is not None
    assert found.items() >= {"bash": "/usr/bin/bash", "python": "/opt/env/bin/python3"}.items()


def test_without_an_environment_no_wall_is_available():
    wall, found = survey.try_wall(registry.find("jail"), Settings(environment="/nowhere"))
    assert not wall.available
    assert "environment is missing" in wall.reason
    assert found == {}


def test_a_wall_elsewhere_is_not_started_but_its_configuration_is_checked(monkeypatch):
    e2b = registry.find("e2b")
    wall, found = survey.try_wall(e2b, Settings())
    assert (wall.available, wall.reason, found) == (False, "not configured", {})
    assert "CLOCHE_E2B_API_KEY" in wall.hint
    monkeypatch.setitem(sys.modules, "e2b", None)
    wall, _ = survey.try_wall(e2b, Settings(e2b_api_key="key"))
    assert not wall.available
    assert "pip install" in wall.hint
    wall, _ = survey.try_wall(e2b.replace(make=lambda _: object()), Settings(e2b_api_key="key"))
    assert wall.available
    assert wall.first_s is None


def test_cloche_can_run_when_a_wall_has_run_a_program_here():
    checks = (Check("a", MISSING, ""),)
    yes, no = survey.WallState("jail", True, first_s=0.1, next_s=0.01), survey.WallState("docker", False)
    assert survey.Survey(checks, (no, yes)).can_run
    assert not survey.Survey(checks, (no,)).can_run
    assert not survey.Survey(checks, (no, survey.WallState("elsewhere", True))).can_run
