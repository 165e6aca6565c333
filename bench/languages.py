"""Hello in every language: by `cloche.run`, and by the same toolchain on this host, bare, with warm caches.

The bare command is what a person would type: `cc hello.c -o hello`, then `./hello`.  It may use all CPUs, a sandbox has
one.  The text of the hello changes every time, so that no cache contains the program itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import cloche
from bench import work
from cloche import languages
from cloche.languages.language import Language

Sample = Callable[[], list[float]]

# The bare commands; TOOL is the language's program, SOURCE its hello, MADE the path of the compiled program.
RUN = ["TOOL SOURCE"]
BARE = {
    "bash": RUN,
    "javascript": RUN,
    "typescript": RUN,  # Node runs the same program without types
    "lua": RUN,
    "perl": RUN,
    "php": RUN,
    "ruby": RUN,
    "tcl": RUN,
    "r": RUN,
    "julia": RUN,
    "c": ["TOOL SOURCE -o MADE", "MADE"],
    "cpp": ["TOOL SOURCE -o MADE", "MADE"],
    "go": ["TOOL build -o MADE SOURCE", "MADE"],
    "java": ["javac -d MADE SOURCE", "TOOL -cp MADE Main"],
    "rust": ["TOOL SOURCE -o MADE", "MADE"],
}
LIMITS = {
    "bash": 1.0,
    "javascript": 1.1,
    "typescript": 1.5,
    "php": 1.1,
    "ruby": 1.1,
    "r": 1.1,
    "c": 1.1,
    "cpp": 1.1,
    "go": 1.0,
    "java": 0.8,
    "rust": 1.1,
}
NAMES = [name for name in BARE if name in languages.names()]
TITLES = {name: languages.find(name).title for name in NAMES}


def contest(name: str) -> str:
    """Return the name of a language's contest."""
    return f"hello {name}"


def every(name: str) -> int:
    """Return how often a contest is run, in rounds: compilers take long."""
    return 2 if len(BARE[name]) == 1 and name not in ("r", "julia") else 4


class Hellos:
    """Runs each language's hello, bare and in Cloche."""

    def __init__(self, scratch: Path) -> None:
        self._folder = scratch / "hello"
        self._number = count()
        self._env = {**os.environ, "HOME": str(scratch), "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
        self._env.pop(
            "NODE_EXTRA_CA_CERTS", None
        )  # Node reads them at every start, which takes twice as long and would flatter us

    def sides(self, name: str) -> dict[str, Sample]:
        """Return the two sides of a language's contest."""
        return {"cloche": lambda: self._ours(name), "bare": lambda: self._bare(name)}

    def _ours(self, name: str) -> list[float]:
        language = _here(name)
        code, wanted = self._hello(language)
        start = time.perf_counter()
        result = cloche.run(code, language=name)
        seconds = time.perf_counter() - start
        _check(wanted, result.stdout if result.error is None else f"{result.error} {result.stderr}")
        return [seconds]

    def _bare(self, name: str) -> list[float]:
        language = _here(name)
        found = languages.tools(language)
        assert found is not None
        code, wanted = self._hello(language)
        words = {
            "TOOL": found.on_host,
            "SOURCE": str(self._source(language, code)),
            "MADE": str(self._folder / name),
            "javac": os.path.join(os.path.dirname(found.on_host), "javac"),
        }
        start = time.perf_counter()
        for line in BARE[name]:
            output, _ = work.timed([words.get(word, word) for word in line.split()], self._env)
        seconds = time.perf_counter() - start
        _check(wanted, output)
        return [seconds]

    def _hello(self, language: Language) -> tuple[str, str]:
        """Make a new hello, and return it with the text that it prints."""
        number = next(self._number)
        return language.hello.replace("Hello", f"Hello {number}"), f"Hello {number} from {language.title}\n"

    def _source(self, language: Language, code: str) -> Path:
        self._folder.mkdir(exist_ok=True)
        if language.name == "typescript":
            path, code = self._folder / "typed.js", code.replace(": string", "")
        else:
            path = self._folder / ("Main.java" if language.name == "java" else f"hello{language.extensions[0]}")
        path.write_text(code)
        return path


def _here(name: str) -> Language:
    from bench.measures import Unavailable

    language = languages.find(name)
    if languages.tools(language) is None:
        raise Unavailable(f"{language.title} is not installed")
    return language


def _check(wanted: str, output: str) -> None:
    if output != wanted:
        raise work.WrongOutput(f"wrong output: {output[-200:]!r}")
