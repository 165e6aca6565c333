"""The parser of the command line: its mistakes are answered with one sentence, and with the name that was meant."""

from __future__ import annotations

import argparse
import os
import sys

from cloche.nearest import did_you_mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

INVALID = 2  # the exit code of a command line that makes no sense


class Parser(argparse.ArgumentParser):
    """A parser that suggests what was meant."""

    def error(self, message: str) -> NoReturn:
        self.refuse(message[:1].upper() + message[1:] + ".")

    def refuse(self, message: str, hint: str = "") -> NoReturn:
        """Write what is wrong with the command line, and leave."""
        from cloche.cli.main import complain

        complain(message, f"{hint} See `{self.prog} --help`.".lstrip())
        sys.exit(INVALID)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a command line; each parser, also that of a command, refuses an option that it does not have."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self._refuse_rest(rest)
        return found, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        word = f"{str(value)[:100]!r}"
        if not isinstance(action, argparse._SubParsersAction):
            name = action.option_strings[-1] if action.option_strings else action.metavar or action.dest.upper()
            self.refuse(f"{word} is no value of {name}.", _meant(str(value), choices))
        elif action.dest == "command" and os.path.exists(str(value)):
            self.refuse(f"There is no command {word}.", f"To run it: `cloche run {str(value)[:100]}`.")
        else:
            self.refuse(f"There is no command {word}.", _meant(str(value), choices))

    def _refuse_rest(self, rest: Sequence[str]) -> NoReturn:
        word = rest[0].partition("=")[0]
        options = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
        if word.startswith("-") and word != "-":
            self.refuse(f"`{self.prog}` has no option {word:.100}.", did_you_mean(word, options))
        self.refuse(f"`{self.prog}` does not know what to do with {word[:100]!r}.")


def _meant(word: str, choices: Sequence[str]) -> str:
    return did_you_mean(word, choices, f"Choose one of {', '.join(choices)}.")
