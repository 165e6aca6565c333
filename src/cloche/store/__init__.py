"""Keeps facts about runs, sandboxes, keys and actions, so that they survive a restart.

`store.py` is the database.  `journal.py` writes a fact to a file before the database has it.  The service calls both;
`import cloche` and `cloche run` load nothing of this package.  Its tests are in `tests/store`.

Tests: tests/store
"""
