"""`python -m bench`: Cloche beside a bare interpreter and `docker run`, with the limits that we promise."""

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
from bench.engine import REPOSITORY
from bench.measures import Lab, measure

ROUNDS, QUICK_ROUNDS = 25, 3
BUDGET_S = 240.0  # after this no further round is started
PEERS_BUDGET_S = 300
PEERS = REPOSITORY.parent / "shared" / "bench" / "peers.py"


def main() -> int:
    """Measure, print, and tell by the exit code whether that worked (with --strict: whether all limits hold)."""
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
        peers(options.reps)
    missed = options.strict and any(row.verdict == "MISSED" for row in rows)
    return 1 if samples.broken or missed else 0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--reps", type=int, default=0, metavar="N", help=f"rounds (default {ROUNDS})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds: does it work, not how fast is it")
    parser.add_argument(
        "--only", default="", metavar="A,B", help="contests, by name: hello, pandas, burst, ...; languages"
    )
    parser.add_argument("--json", metavar="FILE", help="write figures and samples there")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a limit is missed")
    parser.add_argument("--peers", action="store_true", help=f"then other sandboxes, by {PEERS.name}, if it is here")
    options = parser.parse_args()
    options.reps = max(1, options.reps or (QUICK_ROUNDS if options.quick else ROUNDS))
    return options


def peers(reps: int) -> None:
    """Other sandboxes and Cloche, as many as are installed here."""
    home = os.environ.get("PEERS_HOME", "/tmp/peers-home")
    if not PEERS.exists():
        print(f"\nNo other sandboxes: {PEERS} is not here.")
        return
    if not Path(home, "venv").exists():
        print(f"\nOther sandboxes are not installed ({PEERS} setup --home {home}); what is here without that:")
    plugin = Path(__file__).with_name("peer.py")
    command = [sys.executable, str(PEERS), "run", "--home", home, "--plugin", str(plugin)]
    command += ["--reps", str(reps), "--budget", str(PEERS_BUDGET_S)]
    print(flush=True)
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
