"""The agent as one file, for walls that start a process where nothing of ours is: see archive.py and entry.py."""
