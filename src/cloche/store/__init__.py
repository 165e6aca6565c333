"""What outlives a run: facts about runs, sandboxes, keys and who did what come in, and are there after any restart.

`store.py` is the database, `journal.py` the file that makes a fact durable before the database has it.  Called by the
server alone: `import cloche` and `cloche run` load nothing of it.
"""
