"""The Java kernel: drives one JVM, whose JShell runs the cells (Kernel.java)."""

from __future__ import annotations

import os

from cloche.kernels import folder_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

PREPARED = "/opt/prepared"  # see cloche.languages.preparation
SCRIPT = "/opt/kernels/java/Kernel.java"
# A JVM cannot see how much memory a sandbox has, so its heap grows no more than it must.
_SMALL_HEAP = ("-XX:+UseSerialGC", "-Xms16m", "-XX:MinHeapFreeRatio=20", "-XX:MaxHeapFreeRatio=30")
_FAST_START = (
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:ArchiveRelocationMode=0",
    "-XX:-UsePerfData",
    "-XX:TieredStopAtLevel=1",
    "-Xlog:disable",
    "-XX:ErrorFile=/tmp/hs_err_pid%p.log",
)
# The kernel changes the environment for each cell, which Java has no other way to do.
_OPENED = ("--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED")


def main(control: int, order: dict[str, Any]) -> NoReturn:
    """Serve as the kernel until the agent is gone."""
    folder_kernel.serve(control, order, "Java", "code.java", _command)


def _command(folder: str, environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the command of the JVM, with the class archive that was prepared for it, if there is one."""
    from shutil import which

    java = which("java", path=environment.get("PATH", os.defpath)) or "java"
    prepared = next((folder_path for folder_path in _prepared_folders() if _was_made_with(folder_path, java)), None)
    # Without this option, a JVM asks for the CPUs dozens of times, and each time takes a round trip to the agent.
    options = (*_FAST_START, *_SMALL_HEAP, *_OPENED, f"-XX:ActiveProcessorCount={os.cpu_count() or 1}")
    if prepared is None:
        return [java, *options, SCRIPT, folder], environment
    start = (f"-XX:SharedArchiveFile={prepared}/kernel.jsa", "-cp", f"{prepared}/builder.jar", "Kernel")
    return [java, *options, *start, folder], environment


def _prepared_folders() -> list[str]:
    """Return the prepared folders, newest first: folders of earlier Cloche versions have an earlier kernel in them."""
    try:
        names = [name for name in os.listdir(PREPARED) if name.startswith("java-")]
    except OSError:
        return []
    return [f"{PREPARED}/{name}" for name in sorted(names, key=lambda name: int(name.split("-")[1]), reverse=True)]


def _was_made_with(folder_path: str, java: str) -> bool:
    """Say whether the folder was prepared with this JDK and this version of Kernel.java."""
    try:
        with open(f"{folder_path}/jdk") as file, open(f"{folder_path}/Kernel.java") as kernel, open(SCRIPT) as script:
            return file.read() == os.path.realpath(java) and kernel.read() == script.read()
    except OSError:
        return False
