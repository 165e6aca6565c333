"""The backend for sandboxes on a Cloche server: it turns the front's requests into HTTP requests.

    place.py        the server as a place that makes sandboxes; `cloche.run(url=…)` in one request
    sandbox.py      a sandbox's lifetime; sandboxes.py: the list of them, and what has run in each
    programs.py     programs and commands; processes.py: a running one
    files.py        files; ports.py: servers inside
    sessions.py     contexts; checkpoints.py: checkpoints, undo and branches
    cells.py        a running cell: its events, its tools, and its continuation when the connection breaks
    attempts.py     attempts, and the best of several candidates
    server.py       requests: keeps connections, raises the server's errors, and retries where that is safe
    connection.py   one HTTP connection; tls.py: encryption
    feed.py         server-sent events
    shapes.py       from JSON to the classes of `model/`, and back

Written for asyncio; `cloche.blocking.client` is generated from it.

Tests: tests/client
"""
