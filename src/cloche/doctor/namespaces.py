"""Explains why user namespaces, or a /proc for a sandbox, are not available: finds the setting behind an errno."""

from __future__ import annotations

import errno
import os

from cloche.doctor.check import MISSING, OK, Check
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CAP_SETFCAP = 31
_HARMLESS = "/proc/sys/fs/binfmt_misc"  # mounted on many hosts; the kernel does not count it as a cover


class NamespaceFacts(Plain):
    """The host's settings for user namespaces; None where the host has no such setting."""

    max_user_namespaces: int | None = None
    unprivileged_userns_clone: int | None = None
    apparmor_restrict: int | None = None
    under_seccomp: bool = False  # this process runs under another program's filter
    in_container: bool = False
    in_chroot: bool = False
    covered_proc: bool = False  # parts of /proc are hidden or read-only, as in containers
    apparmor_profile: bool = False  # a profile is in force for this process
    without_setfcap: bool = False  # root, but without the capability that mapping root requires since Linux 5.12


def read_facts(root: str = "/") -> NamespaceFacts:
    """Read the settings below `root`."""
    status = _text(f"{root}proc/self/status")
    return NamespaceFacts(
        max_user_namespaces=_number(f"{root}proc/sys/user/max_user_namespaces"),
        unprivileged_userns_clone=_number(f"{root}proc/sys/kernel/unprivileged_userns_clone"),
        apparmor_restrict=_number(f"{root}proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        under_seccomp="\nSeccomp:\t2" in status,
        in_container=any(os.path.exists(f"{root}{name}") for name in (".dockerenv", "run/.containerenv")),
        in_chroot=_in_chroot(root),
        covered_proc=any(place.startswith("/proc/") and place != _HARMLESS for place in _mounts(root)),
        apparmor_profile="(enforce)" in _text(f"{root}proc/self/attr/apparmor/current"),
        without_setfcap="\nUid:\t0\t0\t" in status and not _capabilities(status) >> _CAP_SETFCAP & 1,
    )


def user_namespaces(result: dict[str, Any], facts: NamespaceFacts) -> Check:
    """Make the row about user namespaces, from the result of a trial."""
    name = "user namespaces"
    if "failed" not in result:
        return Check(name, OK, "Allowed: a sandbox's root is nobody on the host.")
    reason, remedy = why_not(result.get("errno"), str(result.get("step", "")), facts)
    return Check(name, MISSING, f"{reason} ({result['failed']})", remedy)


def why_not(number: int | None, step: str, facts: NamespaceFacts) -> tuple[str, str]:
    """Return the setting that forbids user namespaces, and how to change it."""
    if facts.max_user_namespaces == 0:
        return "user.max_user_namespaces is 0.", "sysctl -w user.max_user_namespaces=15000"
    if number == errno.ENOSPC:
        allowed = facts.max_user_namespaces
        return (
            f"All user namespaces that user.max_user_namespaces allows ({allowed}) are in use, or 32 are nested.",
            f"sysctl -w user.max_user_namespaces={max(15000, (allowed or 0) * 2)}",
        )
    if number in (errno.EINVAL, errno.ENOSYS):
        return "The kernel is built without user namespaces.", "Use a kernel with CONFIG_USER_NS=y."
    if facts.unprivileged_userns_clone == 0:
        return "kernel.unprivileged_userns_clone is 0.", "sysctl -w kernel.unprivileged_userns_clone=1, or run as root."
    if facts.without_setfcap and step == "map":
        return (
            "Root without CAP_SETFCAP may not map itself into a user namespace.",
            "Give the container CAP_SETFCAP, or run Cloche there as an ordinary user.",
        )
    # AppArmor allows the namespace but removes its capabilities, so that the later steps fail.
    if facts.apparmor_restrict and (step != "unshare" or not facts.under_seccomp):
        return (
            "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1).",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give this Python an AppArmor profile with "
            "`userns,`, or run as root.",
        )
    if facts.under_seccomp:
        return "The system-call filter of an outer container or service refuses unshare.", container_options(facts)
    if facts.in_chroot:
        return "Inside a chroot the kernel allows no user namespace.", "Run Cloche outside of the chroot."
    if facts.in_container:
        return "The outer container forbids it.", container_options(facts)
    return (
        "The kernel or a security module forbids it.",
        "Look for SELinux or AppArmor denials in the kernel's log, or run as root.",
    )


def proc(result: dict[str, Any], facts: NamespaceFacts) -> Check:
    """Make the row about the sandbox's own /proc."""
    name = "own /proc"
    if "failed" not in result:
        return Check(name, OK, "A sandbox gets a /proc with its own processes only.")
    failed = f"({result['failed']})"
    if result.get("step") == "namespaces" or result.get("errno") not in (errno.EPERM, errno.EACCES):
        return Check(name, MISSING, f"It cannot be mounted {failed}.", "See the row about user namespaces first.")
    reason = "The kernel or a security module refuses a fresh /proc"
    if facts.covered_proc:
        reason = "A fresh /proc is refused, because an outer container covers parts of the visible one"
    return Check(name, MISSING, f"{reason} {failed}.", container_options(facts))


def container_options(facts: NamespaceFacts) -> str:
    """Return the options for the outer container: those for known obstacles, or all of them."""
    obstacles = {
        "seccomp=unconfined": facts.under_seccomp,
        "apparmor=unconfined": facts.apparmor_profile,
        "systempaths=unconfined": facts.covered_proc,
    }
    wanted = [option for option, known in obstacles.items() if known] or list(obstacles)
    podman = " (Podman: --security-opt unmask=ALL)" if wanted[-1].startswith("systempaths") else ""
    options = " ".join(f"--security-opt {option}" for option in wanted)
    return f"Start the outer container with {options}{podman}, or run Cloche outside of it."


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _capabilities(status: str) -> int:
    return int((status.partition("\nCapEff:")[2].split() or ["0"])[0], 16)


def _number(path: str) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _in_chroot(root: str) -> bool:
    """Return whether our root is not the root of a mount, which only a chroot can cause."""
    mounts = _mounts(root)
    return bool(mounts) and "/" not in mounts


def _mounts(root: str) -> list[str]:
    return [line.split()[4] for line in _text(f"{root}proc/self/mountinfo").splitlines()]
