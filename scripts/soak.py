"""Runs mixed work with random kills against a server of its own, and checks that nothing grows.

    scripts/soak --minutes 60 --seed 1

Work and kills go on for half a minute.  Then everything stops, all sandboxes are deleted, and the script counts what is
left: processes, descriptors, mounts, control groups, namespaces, files and memory.  After the warm-up, the median of
the last third of these counts is compared with that of the first third.  The script prints every count as a line of
JSON, and exits with 1 if a figure grew beyond its tolerance or if the server answered 500.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
from scripts.soak_work import TASKS, Client, Unexpected
from websockets.exceptions import WebSocketException

WORKERS = 4
KILL_EVERY_S = 2.0  # on average
ROUND_S = 30.0

# What may be added between the first and the last third: a number, and a share of the first.  A kill just before a
# count may leave the pool one sandbox short, so one waiting sandbox more or less is no growth: 2 processes, 39
# descriptors, 43 mounts, 4 control groups and 7 namespaces.
TOLERANCE = {
    "processes": (3, 0.0),
    "descriptors": (45, 0.05),
    "mounts": (45, 0.0),
    "control groups": (4, 0.0),
    "namespaces": (8, 0.0),
    "files": (5, 0.05),
    "memory, MB": (24, 0.10),
    "the server's memory, MB": (24, 0.10),
}


def main() -> int:
    """Soak a server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--round", type=float, default=ROUND_S, help="seconds of work between two counts")
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(json.dumps({"seed": seed, "minutes": options.minutes}), flush=True)
    with tempfile.TemporaryDirectory(prefix="cloche-soak-", ignore_cleanup_errors=True) as folder:
        soak = Soak(Path(folder), seed)
        try:
            counts = soak.run(options.minutes * 60, options.round)
        finally:
            soak.close()
    problems = [*soak.unexpected, *growth(counts)]
    done = {"tasks": soak.done, "kills": soak.kills, "counts": len(counts), "problems": problems[:20]}
    print(json.dumps(done), flush=True)
    return 1 if problems else 0


class Soak:
    """A server, its clients, and what was counted."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self.done: Counter[str] = Counter()
        self.kills: Counter[str] = Counter()
        self.unexpected: list[str] = []
        self._chance = random.Random(seed)
        self._owners: set[str] = set()  # the server's processes so far, as the names of control groups have them
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CLOCHE_")}
        command = [sys.executable, "-m", "cloche.cli.main", "serve", "--port", "0", "--data-dir", str(folder / "data")]
        self._log = open(folder / "log", "wb")
        self._server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, env=environment)
        assert self._server.stdout is not None
        first = self._server.stdout.readline().decode()
        if "ready at " not in first:
            self.close()
            raise SystemExit(f"the server did not start: {first}")
        threading.Thread(target=self._server.stdout.read, daemon=True).start()
        url = first.split("ready at ")[1].strip()
        key = (folder / "data" / "key").read_text().strip()
        self._clients = [Client(url, key, random.Random(f"{seed}-{number}")) for number in range(WORKERS)]
        self._admin = Client(url, key, self._chance)

    def run(self, seconds: float, round_s: float) -> list[dict[str, float]]:
        """Work and count in turns."""
        end = time.monotonic() + seconds
        counts: list[dict[str, float]] = []
        while time.monotonic() < end and self._server.poll() is None:
            self._work(min(time.monotonic() + round_s, end))
            counts.append(self._count())
            print(json.dumps({"round": len(counts), **counts[-1], "tasks": self.done.total()}), flush=True)
        if self._server.poll() is not None:
            self.unexpected.append(f"the server ended with status {self._server.returncode}")
        return counts

    def close(self) -> None:
        """Stop the server."""
        if self._server.poll() is None:
            self._server.terminate()
            try:
                self._server.wait(60)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        if self._server.stdout is not None:
            self._server.stdout.close()
        self._log.close()

    def _work(self, end: float) -> None:
        threads = [threading.Thread(target=self._serve_client, args=(client, end)) for client in self._clients]
        for thread in threads:
            thread.start()
        while time.monotonic() < end:
            time.sleep(self._chance.random() * 2 * KILL_EVERY_S)
            self._kill_one()
        for thread in threads:
            thread.join()

    def _serve_client(self, client: Client, end: float) -> None:
        while time.monotonic() < end:
            task = client.chance.choice(TASKS)
            try:
                task(client)
            except Unexpected as problem:
                self.unexpected.append(str(problem))
            except (httpx2.HTTPError, OSError, WebSocketException, TimeoutError, EOFError):
                self.done["cut off"] += 1
            self.done[task.__name__] += 1

    def _kill_one(self) -> None:
        """Kill one process below the server; never the server, and nothing that is not below it."""
        below = sorted(descendants(self._server.pid))
        self._note_owners({self._server.pid, *below})
        if not below:
            return
        victim = self._chance.choice(below)
        try:
            handle = os.pidfd_open(victim)
        except OSError:
            return  # it has just ended
        try:
            if victim in descendants(self._server.pid):  # the handle is of this process, and not of a successor
                name = Path(f"/proc/{victim}/comm").read_text().strip()
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                self.kills[name] += 1
        except OSError:
            pass
        finally:
            os.close(handle)

    def _count(self) -> dict[str, float]:
        """Delete everything, use each kind of nursery once, wait until all is quiet, and count."""
        for client in self._clients:
            client.forget()
        for _ in range(3):  # a kill just before may make one attempt fail
            try:
                self._delete_all()
                for code in ("print(1)", "import numpy"):
                    self._admin.ask("POST", "/v1/run", json={"code": code})
                box = self._admin.ask("POST", "/v1/sandboxes", json={}).json()["id"]
                self._admin.ask("POST", f"/v1/sandboxes/{box}/run", json={"code": "1"})
                self._admin.ask("DELETE", f"/v1/sandboxes/{box}")
            except (httpx2.HTTPError, KeyError):
                time.sleep(1)
        self._wait_until_quiet()
        pids = {self._server.pid, *descendants(self._server.pid)}
        self._note_owners(pids)
        return {
            "processes": len(pids),
            "descriptors": sum(len(_listed(f"/proc/{pid}/fd")) for pid in pids),
            "mounts": _mounts(pids),
            "control groups": _control_groups(self._owners),
            "namespaces": len({_link(path) for pid in pids for path in _listed(f"/proc/{pid}/ns")} - {""}),
            "files": sum(len(names) for _, _, names in os.walk(self._folder)),
            "memory, MB": round(sum(_memory_mb(pid) for pid in pids), 1),
            "the server's memory, MB": round(_memory_mb(self._server.pid), 1),
        }

    def _note_owners(self, pids: set[int]) -> None:
        self._owners |= {f"{pid}-{_started(pid)}" for pid in pids}

    def _delete_all(self) -> None:
        after: dict[str, str] = {}
        while True:
            page = self._admin.ask("GET", "/v1/sandboxes", params=after).json()
            for box in page["items"]:
                if box["state"] != "ended":
                    self._admin.ask("DELETE", f"/v1/sandboxes/{box['id']}")
            if not page["next"]:
                return
            after = {"after": page["next"]}

    def _wait_until_quiet(self) -> None:
        """Wait until no process has come or gone for three seconds, for half a minute at most."""
        deadline = time.monotonic() + 30
        before: set[int] = set()
        since = time.monotonic()
        while time.monotonic() < deadline and time.monotonic() - since < 3:
            now = descendants(self._server.pid)
            if now != before:
                before, since = now, time.monotonic()
            time.sleep(0.2)


def growth(counts: list[dict[str, float]]) -> list[str]:
    """Compare the last third of the counts with the first, after a fifth for warming up; returns what grew."""
    settled = counts[len(counts) // 5 :]
    if len(settled) < 3:
        return []
    third = max(1, len(settled) // 3)
    problems = []
    for name, (number, share) in TOLERANCE.items():
        first = median(count[name] for count in settled[:third])
        last = median(count[name] for count in settled[-third:])
        if last > first + number + share * first:
            problems.append(f"{name} grew from {first:g} to {last:g}")
    return problems


def descendants(pid: int) -> set[int]:
    """Return the pids of all processes below this one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(name))
    found: set[int] = set()
    left = [pid]
    while left:
        for child in children.get(left.pop(), ()):
            found.add(child)
            left.append(child)
    return found


def _listed(folder: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]
    except OSError:
        return []


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _mounts(pids: set[int]) -> int:
    """Count the mounts in all mount namespaces of the processes but our own, which others on the host use as well."""
    one_each = {_link(f"/proc/{pid}/ns/mnt"): pid for pid in pids}
    one_each.pop(_link("/proc/self/ns/mnt"), None)
    total = 0
    for pid in one_each.values():
        try:
            total += len(Path(f"/proc/{pid}/mountinfo").read_bytes().splitlines())
        except OSError:
            continue
    return total


def _started(pid: int) -> str:
    """Return the start time of a process, which tells it from a later one with the same pid."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _control_groups(owners: set[str]) -> int:
    """Count the control groups of these processes, whose names begin with cloche-PID-START-."""
    groups = [name for _, folders, _ in os.walk("/sys/fs/cgroup") for name in folders if name.startswith("cloche-")]
    return sum("-".join(name.split("-")[1:3]) in owners for name in groups)


def _memory_mb(pid: int) -> float:
    """Return the memory of a process, with its share of what it shares."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    fields: dict[str, Any] = dict(line.split(":", 1) for line in text.splitlines() if ":" in line[:20])
    return int(fields.get("Pss", "0 kB").split()[0]) / 1024


if __name__ == "__main__":
    sys.exit(main())
