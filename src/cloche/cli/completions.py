"""Finds the values that may stand at the end of a command line, from the parsers of the commands themselves.

The placeholder of an option or an argument, which its help shows, says what kind of value it takes.  So an option that
is added to a parser is completed without further work, and one with a new placeholder needs a line in `values_of`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from cloche.cli.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.client.sandboxes import ServerSandboxes

SERVER_S = 1.0  # how long a Tab waits for a server
_MOST = 200  # values of one Tab
_ABOUT = 70  # characters of a description
# Names from servers and sandboxes are offered only if no shell reads anything else in them.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+@%/")
_REST = ("...", argparse.PARSER)
# The placeholders of values that nobody can list.
_FREE = (
    *("CODE", "K=V", "URL", "KEY", "SECONDS", "SIZE", "CORES", "N", "NUMBER", "TEXT", "NAME", "ADDRESS"),
    *("HOST", "DOMAIN", "ORIGIN", "NAME@HOST", "MODULES", "-- COMMAND", "[--] COMMAND"),
)


class Offer(NamedTuple):
    """Values with their descriptions; `paths` is "files" or "folders" if the shell is to add their names."""

    values: list[tuple[str, str]]
    paths: str = ""


NOTHING = Offer([])


def offer(words: Sequence[str]) -> Offer:
    """Return what the last word may become; the words are those after `cloche`."""
    from cloche.cli.main import COMMANDS, parser

    *before, current = words or [""]
    begin = before[:1] if before[:1] and before[0] in COMMANDS else [""]
    line = _Line(parser(begin))
    for word in before:
        line.take(word)
    found = line.offer(current)
    return Offer([each for each in found.values if each[0].startswith(current)][:_MOST], found.paths)


def split(line: str) -> list[str]:
    """Split a command line as a shell does, as far as it is written; the last word may be empty or quoted halfway."""
    words, word, quote, is_escaped = list[str](), "", "", False
    is_open = False
    for character in line:
        if is_escaped:
            word, is_escaped = word + character, False
        elif character == "\\" and quote != "'":
            is_escaped = is_open = True
        elif quote:
            word, quote = (word, "") if character == quote else (word + character, quote)
        elif character in "'\"":
            quote, is_open = character, True
        elif character in " \t":
            words, word, is_open = [*words, word] if word or is_open else words, "", False
        else:
            word += character
    return [*words, word]


class _Line:
    """A command line, as far as it was read."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._given: dict[str, str] = {}
        self._only_arguments = False
        self._enter(parser)

    def _enter(self, parser: argparse.ArgumentParser) -> None:
        self._options = {name: action for action in parser._actions for name in action.option_strings}
        self._arguments = [action for action in parser._actions if not action.option_strings]
        self._waiting: argparse.Action | None = None  # an option whose value comes next

    def take(self, word: str) -> None:
        """Read a word that is complete."""
        name, equals, value = word.partition("=")
        option = self._options.get(name)
        if self._waiting is not None:
            self._given[self._waiting.dest] = word
            self._waiting = None
        elif word == "--" and not self._only_arguments:
            self._only_arguments = True
        elif word.startswith("-") and word != "-" and not self._only_arguments:
            if option is not None and equals:
                self._given[option.dest] = value
            elif option is not None and option.nargs != 0:
                self._waiting = option
        elif self._arguments:
            self._argument(word)

    def _argument(self, word: str) -> None:
        action = self._arguments[0]
        if isinstance(action, argparse._SubParsersAction):
            chosen = action.choices.get(word)
            if chosen is not None:
                self._enter(chosen)
        elif action.nargs in _REST:
            self._only_arguments = True
        elif action.nargs not in ("*", "+"):
            del self._arguments[0]
            if self._arguments and self._arguments[0].nargs in _REST:
                self._only_arguments = True

    def offer(self, current: str) -> Offer:
        """Return what the word at the end may become."""
        if self._waiting is not None:
            return self._values(self._waiting, current)
        name, equals, value = current.partition("=")
        if not self._only_arguments and equals and name in self._options:
            found = self._values(self._options[name], value)
            return Offer([(f"{name}={each}", about) for each, about in found.values], found.paths)
        if not self._only_arguments and (current.startswith("-") or not self._arguments):
            return Offer([(name, _about(action.help)) for name, action in self._options.items()])
        return self._values(self._arguments[0], current) if self._arguments else NOTHING

    def _values(self, action: argparse.Action, current: str) -> Offer:
        if isinstance(action, argparse._SubParsersAction):
            return Offer([(each.dest, _about(each.help)) for each in action._choices_actions])
        if action.choices is not None:
            return Offer([(str(choice), "") for choice in action.choices])
        return values_of(str(action.metavar or action.dest.upper()), current, self._given) or NOTHING


def _about(text: str | None) -> str:
    return printable(" ".join((text or "").replace("%%", "%").split()), _ABOUT)


# --- values, by placeholder


def values_of(placeholder: str, current: str, given: dict[str, str]) -> Offer | None:
    """Return the values for a placeholder; None if it is unknown.  `given` are the options so far."""
    match placeholder:
        case "FILE" | "PATH" | "ARGS":
            return Offer([], "files")
        case "DIR" | "FOLDER":
            return Offer([], "folders")
        case "SRC:DEST" | "SRC:DEST[:rw]":
            return NOTHING if ":" in current else Offer([], "files")
        case "SOURCE" | "TARGET":
            return _either_side(current, given)
        case "SANDBOX":
            return _sandboxes(current, given)
        case "LANGUAGE":
            from cloche import languages

            return _named(languages.names())
        case "TEMPLATE":
            from cloche import templates

            return Offer([(each.name, _about(each.description)) for each in templates.everything()])
        case "ENVIRONMENT":
            return _environments()
        case "PACKAGE":
            from cloche.packages.lookalikes import popular_names

            return _named(popular_names("python"))
        case "ISOLATION":
            from cloche.model.isolation import ISOLATIONS

            return _named(ISOLATIONS)
        case "HOW":
            from cloche.sandbox.checks import CHECKS

            return _named(CHECKS)
        case "RULE":
            from cloche.model.network_rules import PRESETS

            return _named(("none", *PRESETS))
        case choices if "|" in choices:  # of a setting
            return _named(choices.split("|"))
    return NOTHING if placeholder in _FREE else None


def _named(names: Iterable[str]) -> Offer:
    return Offer([(name, "") for name in names])


def _environments() -> Offer:
    from cloche.packages import of_this_host
    from cloche.packages.environments import Environments

    return _named(each.name for each in Environments(of_this_host.shared()).list())


def _sandboxes(current: str, given: dict[str, str]) -> Offer:
    def ask(place: ServerSandboxes) -> Offer:
        found = []
        for each in place.all():
            about = f"{each.state}, {each.short_id}"
            if _is_plain(each.name):
                found.append((each.name, about))
            if current or not _is_plain(each.name):
                found.append((each.short_id, printable(each.name, 30)))
        return Offer(found)

    return _from_server(ask, given)


def _either_side(current: str, given: dict[str, str]) -> Offer:
    """Files here, or in a sandbox."""
    if current.startswith(("/", ".", "~")):
        return Offer([], "files")
    word, colon, path = current.partition(":")
    if not colon:
        return Offer([(f"{name}:", about) for name, about in _sandboxes(current, given).values], "files")
    folder = path.rpartition("/")[0] + "/" if "/" in path else ""

    def ask(place: ServerSandboxes) -> Offer:
        listing = place.box(place.find(word).id).files.list(folder or ".", 1)
        names = [(each.name, "/" if each.kind == "directory" else "") for each in listing]
        return Offer([(f"{word}:{folder}{name}{end}", "") for name, end in names if _is_plain(name)])

    return _from_server(ask, given)


def _from_server(ask: Callable[[ServerSandboxes], Offer], given: dict[str, str]) -> Offer:
    """Ask the server that the command line names; offer nothing if it does not answer soon, or with an error."""
    from threading import Thread

    found = [NOTHING]

    def work() -> None:
        from cloche.cli import servers
        from cloche.errors import ClocheError

        names = ("url", "api_key", "config", "host", "port", "data_dir")
        try:
            found[0] = ask(servers.sandboxes(argparse.Namespace(**{name: given.get(name) for name in names})))
        except ClocheError:
            pass  # a Tab has no place for a message

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(SERVER_S)
    return found[0]


def _is_plain(name: str) -> bool:
    return bool(name) and not name.startswith("-") and _PLAIN.issuperset(name)
