"""The installed modules that a kernel has imported: the agent names them when another version is installed."""

from __future__ import annotations

import sys

from cloche.agent import own_packages


class ImportedModules:
    """The names in `sys.modules` that the agent does not know yet; they come last there."""

    def __init__(self, all_are_new: bool) -> None:
        self._known = None if all_are_new else next(reversed(sys.modules), None)

    def take(self) -> list[str]:
        """Return the new ones: packages and modules at the top, or right below namespace packages."""
        try:
            newest = next(reversed(sys.modules), None)
            if newest == self._known:  # the usual case, which must cost nothing
                return []
            new = []
            for name in reversed(sys.modules):
                if name == self._known:
                    break
                new.append(name)
            self._known = newest
            return [name for name in new if own_packages.is_unit(name)]
        except Exception:  # a thread imports something right now, or a cell has put something else into `sys.modules`
            return []
