"""The names of the isolations that a caller can ask for."""

from __future__ import annotations

AUTO = "auto"  # the wall that this host, or the server, prefers: today always the jail
# The others are the names of walls.  A test compares them with the rows of walls/registry.py.
ISOLATIONS = (AUTO, "jail", "e2b")
