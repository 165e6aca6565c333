"""The client of a Cloche server: the classes of `engine/`, their work done elsewhere and asked for over HTTP.

    sandbox.py      AsyncRemoteSandbox, what `AsyncSandbox(url=…)` makes; contexts.py, checkpoints.py, attempts.py
    cells.py        a cell under way: its events, its tools, picked up again when the connection breaks
    commands.py     programs; files.py: files; ports.py: what listens inside
    one_shot.py     `cloche.run(url=…)`
    server.py       requests: connections kept, errors told as ours, retries of what is safe
    connection.py   one HTTP connection; io.py: how one is made; tls.py: how it is sealed
    feed.py         server-sent events
    shapes.py       from JSON to the words of `model/`

Written for asyncio; `scripts/blocking.py` makes the blocking twin of it (`cloche/blocking/remote_*.py`).
"""
