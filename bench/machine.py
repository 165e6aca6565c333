"""Reads from the machine how busy it is, and how much memory a tree of processes uses."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path


class Quiet:
    """Waits before each sample until no other process uses the CPUs, and counts how often that was needed.

    Nothing of ours runs between two samples, so the CPUs are busy with another program, or with leftovers of the sample
    before: a pool that refills itself, a sandbox that is being removed.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s  # for the whole run
        self.samples = self.noisy = 0
        self._idle_busy = self._idle_total = 0.0

    def wait(self) -> None:
        self.samples += 1
        for attempt in range(20):
            busy, total, _ = cpu_seconds()
            time.sleep(0.05)
            busy_then, total_then, _ = cpu_seconds()
            busy, total = busy_then - busy, total_then - total
            self._idle_busy += busy
            self._idle_total += total
            if total and busy / total < 0.3:
                return
            self.noisy += attempt == 0
            self._patience_s -= 0.05
            if self._patience_s < 0:
                return

    def report(self) -> dict[str, float]:
        """Return the share of samples that had to wait, and how busy the CPUs were between samples."""
        return {
            "noisy": self.noisy / max(1, self.samples),
            "busy_between": self._idle_busy / max(1e-9, self._idle_total),
        }


def cpu_seconds() -> tuple[float, float, float]:
    """Return the (busy, total, stolen) CPU seconds of the machine since it started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    tick = os.sysconf("SC_CLK_TCK")
    return (sum(fields) - fields[3] - fields[4]) / tick, sum(fields) / tick, fields[7] / tick


def facts() -> dict[str, object]:
    """Describe the machine, for the head of the report."""
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "cpu": _line("/proc/cpuinfo", "model name"),
        "memory_gb": round(int(_line("/proc/meminfo", "MemTotal").split()[0]) / (1 << 20), 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "user": "root" if os.geteuid() == 0 else "an ordinary user",
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }


def _line(file: str, name: str) -> str:
    for line in Path(file).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return "0"


def family() -> set[int]:
    """Return this process and all its descendants: engines, nurseries, sandboxes."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue  # the process has ended
            parents[int(entry)] = int(stat.rpartition(")")[2].split()[1])
    members = {os.getpid()}
    grew = True
    while grew:
        more = {pid for pid, parent in parents.items() if parent in members} - members
        members |= more
        grew = bool(more)
    return members


def pss_mb(pids: set[int]) -> float:
    """Return the sum of the proportional set sizes: memory that processes share is counted once."""
    total_kb = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended; a process that we may not read raises instead of counting as nothing
        total_kb += next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return total_kb / 1024
