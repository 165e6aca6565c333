"""`python -m bench`: measures Cloche beside a bare interpreter and `docker run`, and checks the promised limits."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import languages, machine, report
from bench.measures import Lab, measure

ROUNDS, QUICK_ROUNDS = 25, 3
BUDGET_S = 240.0  # no further round starts after this
PEERS_BUDGET_S = 300


def main() -> int:
    """Measure and print; the exit code says whether that worked (with --strict: whether all limits hold)."""
    options = parse()
    names = {row.contest for row in report.ROWS}
    wanted = set(filter(None, options.only.split(","))) or names
    if "languages" in wanted:
        wanted = wanted - {"languages"} | set(map(languages.contest, languages.NAMES))
    if wanted - names:
        sys.exit(f"--only knows {', '.join(sorted(names))}, not {', '.join(sorted(wanted - names))}")

    quiet = machine.Quiet(patience_s=BUDGET_S / 10)
    start, before = time.monotonic(), machine.cpu_seconds()
    with tempfile.TemporaryDirectory(prefix="cloche-bench-") as scratch:
        lab = Lab(Path(scratch))
        try:
            contests = [contest for contest in lab.contests() if contest.name in wanted]
            samples, rounds = measure(contests, options.reps, start + BUDGET_S, quiet)
        finally:
            lab.close()
    after = machine.cpu_seconds()
    run = {
        "rounds": rounds,
        "seconds": time.monotonic() - start,
        **quiet.report(),
        "stolen": (after[2] - before[2]) / max(1.0, after[1] - before[1]),
    }
    rows, facts = report.outcomes(samples, wanted), machine.facts()
    print(report.text(rows, facts, run))
    if options.json:
        Path(options.json).write_text(json.dumps(report.as_json(rows, facts, run, samples), indent=1) + "\n")
    if options.peers:
        peers(Path(options.peers), options.reps)
    missed = options.strict and any(row.verdict == "MISSED" for row in rows)
    return 1 if samples.broken or missed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--reps", type=int, default=0, metavar="N", help=f"rounds (default {ROUNDS})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, to see that it works")
    parser.add_argument(
        "--only", default="", metavar="A,B", help="contests, by name: hello, pandas, burst, ...; languages"
    )
    parser.add_argument("--json", metavar="FILE", help="write figures and samples to this file")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a limit is missed")
    parser.add_argument(
        "--peers",
        metavar="SCRIPT",
        help="then time other sandboxes with this script and bench/peer.py",
    )
    options = parser.parse_args()
    options.reps = max(1, options.reps or (QUICK_ROUNDS if options.quick else ROUNDS))
    return options


def peers(script: Path, reps: int) -> None:
    """Let a script compare Cloche with the other sandboxes that are installed here."""
    home = os.environ.get("PEERS_HOME", "/tmp/peers-home")
    if not script.exists():
        sys.exit(f"--peers: there is no file {script}")
    if not Path(home, "venv").exists():
        print(f"\nSome sandboxes are not installed (to install them: {script} setup --home {home}).")
    plugin = Path(__file__).with_name("peer.py")
    command = [sys.executable, str(script), "run", "--home", home, "--plugin", str(plugin)]
    command += ["--reps", str(reps), "--budget", str(PEERS_BUDGET_S)]
    print(flush=True)
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
