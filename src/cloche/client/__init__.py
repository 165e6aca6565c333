"""The backend for sandboxes on a Cloche server: requests of the front come in, HTTP requests go out.

    place.py        the server as a place where sandboxes are made; `cloche.run(url=…)` in one request
    sandbox.py      a sandbox's life
    programs.py     programs and commands; processes.py: one under way
    files.py        files; ports.py: servers inside
    sessions.py     contexts; checkpoints.py: ways back
    cells.py        a cell under way: its events, its tools, picked up again when the connection breaks
    attempts.py     attempts, and the best of several candidates
    server.py       requests: connections kept, errors raised as ours, retries where they are safe
    connection.py   one HTTP connection; tls.py: encryption
    feed.py         server-sent events
    shapes.py       from JSON to the classes of `model/`, and back

Written for asyncio; `cloche.blocking.client` is generated from it.

Tests: tests/client
"""
