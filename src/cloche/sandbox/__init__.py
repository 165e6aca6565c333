"""The classes that callers hold: sandboxes, contexts, processes, files, checkpoints.

A caller's arguments come in and are checked once (checks.py).  The request goes to a backend (backend.py): `engine/`
on this host, `client/` on a server.  No class here knows which backend it has; places.py alone chooses one.

Written for asyncio; `cloche.blocking.sandbox` is generated from it.

Tests: tests/sandbox, tests/engine, tests/sessions, tests/client
"""
