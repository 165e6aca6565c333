"""The Java kernel: speaks a kernel's protocol, and drives one JVM whose JShell runs the cells (Kernel.java)."""

from __future__ import annotations

import os

from cloche.kernels import folder_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

PREPARED = "/opt/prepared"  # see cloche.languages.preparation
SCRIPT = "/opt/kernels/java/Kernel.java"
# A JVM does not see how much memory a sandbox has; so its heap grows by no more than it has to.
_FRUGAL = ("-XX:+UseSerialGC", "-Xms16m", "-XX:MinHeapFreeRatio=20", "-XX:MaxHeapFreeRatio=30")
_QUICK = (
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:ArchiveRelocationMode=0",
    "-XX:-UsePerfData",
    "-XX:TieredStopAtLevel=1",
    "-XX:ActiveProcessorCount=2",
    "-Xlog:disable",
    "-XX:ErrorFile=/tmp/hs_err_pid%p.log",
)


def main(control: int, order: dict[str, Any]) -> NoReturn:
    """Be the kernel, until the agent is gone."""
    folder_kernel.serve(control, order, "Java", "code.java", _command)


def _command(folder: str, environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """The JVM, from the archive that was prepared for it, if it was."""
    from shutil import which

    java = which("java", path=environment.get("PATH", os.defpath)) or "java"
    prepared = next((place for place in _prepared() if _is_for(place, java)), None)
    if prepared is None:
        return [java, *_QUICK, *_FRUGAL, SCRIPT, folder], environment
    start = (f"-XX:SharedArchiveFile={prepared}/kernel.jsa", "-cp", f"{prepared}/builder.jar", "Kernel")
    return [java, *_QUICK, *_FRUGAL, *start, folder], environment


def _prepared() -> list[str]:
    """Newest first: those of earlier versions of ours may still be there, with an earlier kernel in them."""
    try:
        names = [name for name in os.listdir(PREPARED) if name.startswith("java-")]
    except OSError:
        return []
    return [f"{PREPARED}/{name}" for name in sorted(names, key=lambda name: int(name.split("-")[1]), reverse=True)]


def _is_for(place: str, java: str) -> bool:
    """Was it made with this JDK?"""
    try:
        with open(f"{place}/jdk") as file:
            return file.read() == os.path.realpath(java)
    except OSError:
        return False
