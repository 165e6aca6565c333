"""The backend for sandboxes of this host: requests of the front come in, a wall makes sandboxes, frames go to agents.

    place.py        this host as a place where sandboxes are made
    sandbox.py      a sandbox's life, and what its wall has seen; link.py: the conversation with its agent
    programs.py     programs and commands; planning.py, building.py: from source to command; processes.py: under way
    sessions.py     contexts; cells.py: a cell under way; checkpoints.py, attempts.py: ways back
    files.py        files; ports.py: servers inside
    judge.py        why a program failed; judge_cell.py: why a cell did

Written for asyncio; `cloche.blocking.engine` is generated from it.  Called by `sandbox/`; the service also uses
workspace.py, inspection.py and file_details.py, for what only sandboxes of this host can do.

Tests: tests/engine, tests/sessions
"""
