"""What Cloche knows of a language."""

from __future__ import annotations

from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Language(Plain):
    """A language: where its source goes, what runs it, and what keeps its state in a session."""

    name: str
    source: str  # path of the program's file inside the sandbox
    command: tuple[str, ...]  # what runs it; the file and the arguments are appended
    warm: bool = False  # Python: run in a fork of the warm interpreter instead
    kernel: dict[str, Any] | None = None  # how its sessions' kernel starts: {"fork": …} or {"argv": […]}
    context: str = ""  # whose default context its cells run in, if not its own
    words: frozenset[str] = frozenset()  # libraries to look for in the source, as a hint where to run it

    def program(self) -> str:
        """The program that it cannot do without."""
        if self.command:
            return self.command[0]
        return str(self.kernel["argv"][0]) if self.kernel and "argv" in self.kernel else "python3"

    def imports(self, code: str) -> frozenset[str]:
        """Which of `words` the source mentions."""
        return frozenset(word for word in self.words if word in code)
