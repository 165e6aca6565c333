"""Sandboxes, runs, commands and files: takes what a caller wants, asks a wall for a sandbox, speaks with its agent.

Written once, for asyncio; `cloche.blocking` is generated from it (scripts/blocking.py) for callers without a loop.
Called by the library's users and, later, by the doors.
"""
