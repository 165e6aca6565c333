"""`python -m cloche.environment [DIRECTORY]`: builds the environment in its usual place, or in DIRECTORY."""

import sys
import time
from pathlib import Path

from cloche.bundles.__main__ import main as bundle
from cloche.environment import is_built, location
from cloche.environment.build import BuildFailed, build


def main() -> int:
    target = location(sys.argv[1] if len(sys.argv) > 1 else None)
    bundle([])  # takes no time, and is useful wherever sandboxes run
    if is_built(target):
        return 0
    print("Building the sandbox's Python environment (once; about 1.2 GB)", flush=True)
    start = time.monotonic()
    try:
        build(Path(target), report=lambda step: print(f"  {step} …", flush=True))
    except BuildFailed as failure:
        print(f"The sandbox's Python environment could not be built: {failure}", file=sys.stderr)
        return 1
    print(f"  ready, after {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
