"""Run by `wheels` with an interpreter that has pip: downloads one locked package after another in a single process.

`pip download` stores nothing until it has everything, so a build that is interrupted would begin again.  Starting pip
anew for each package would take a minute in all.  Each line of standard input is JSON with pip's arguments; the answer
is a line of JSON with pip's exit code and its messages.  The only argument is the folder, or the wheel, that has pip.
"""

import contextlib
import json
import os
import runpy
import sys
import tempfile


def main() -> None:
    """Serve requests until standard input ends."""
    sys.path += sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing that pip prints may look like an answer
    for line in sys.stdin:
        with tempfile.TemporaryFile() as log:
            os.dup2(log.fileno(), 2)
            code = _pip(json.loads(line))
            log.seek(0)
            said = log.read().decode(errors="replace")
        print(json.dumps({"code": code, "said": said.strip()}), file=answers, flush=True)


def _pip(arguments: list[str]) -> int:
    sys.argv[:] = ["pip", *arguments]
    with contextlib.redirect_stdout(sys.stderr):
        try:
            runpy.run_module("pip", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    main()
