"""The program inside a sandbox: takes frames from the engine, runs programs, cells and file operations, and replies.

Uses only the standard library and `cloche.wire`.  In the jail, the agent is forked from the nursery; behind other walls
it is started as a program (walls/portable).

Tests: tests/agent, tests/sessions
"""
