"""The backend for sandboxes of this host: a wall makes the sandboxes, and their agents carry out the front's requests.

    place.py        this host as a place where sandboxes are made
    sandbox.py      a sandbox's lifetime, and the counts of its wall; link.py: the connection to its agent
    programs.py     programs and commands; planning.py, building.py: from source to command; processes.py: running ones
    sessions.py     contexts; cells.py: a running cell; checkpoints.py, attempts.py: undo, branches and attempts
    files.py        files; ports.py: servers inside
    judge.py        why a program failed; judge_cell.py: why a cell failed

Written for asyncio; `cloche.blocking.engine` is generated from it.  Called by `sandbox/`; the service also uses
workspace.py, inspection.py and file_details.py, for features that only sandboxes of this host have.

Tests: tests/engine, tests/sessions
"""
