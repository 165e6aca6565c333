"""The agent as one file, for walls that start a process where Cloche is not installed: see archive.py and entry.py."""
