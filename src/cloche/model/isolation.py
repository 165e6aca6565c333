"""The isolations that a caller can choose from; `cloche.walls` has what is behind each name."""

from __future__ import annotations

ISOLATIONS = ("auto", "jail", "e2b")  # "auto" is the jail
