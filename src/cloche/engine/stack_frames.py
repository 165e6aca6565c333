"""Reads a traceback: the exceptions of a chain, the newest first, and the calls of each, the innermost first.

A traceback is text from inside a sandbox, so every line, text and number is bounded, and a line that fits no pattern is
left out.
"""

from __future__ import annotations

import re

from cloche.model.result import Raised, StackFrame

MAX_RAISED = 10  # exceptions of a chain
MAX_FRAMES = 40  # of the error itself: half of them from each end
MAX_OLDER = 10  # of each exception before it
MAX_TEXT = 300  # characters of a name, a path or a line of code
MAX_MESSAGE = 2000
_MAX_LINES = 5000  # that are read; the kernels send less
_LINE = 1000  # characters of a line that are looked at
_HOME = "/sandbox/"

_CHAINED = {
    "The above exception was the direct cause of": "cause",
    "During handling of the above exception, another": "context",
}
_NAME = r"[^\W\d][\w.$]*"
_RAISED = re.compile(rf"^({_NAME})(?:: (.*))?$")
_NESTED = re.compile(rf"^\s*(?:\[cause\]: (?:Uncaught )?|Caused by: )({_NAME})(?:: (.*?))?(?: \{{)?$")
# Python quotes the line of code below a call, and IPython marks it with an arrow.
_PYTHON = re.compile(r'^ *File "([^"]+)", line (\d{1,9})(?:, in (.+))?$')
_IPYTHON = re.compile(r"^ *(?:File (.+?):|Cell In ?\[(\d{1,9})\], line )(\d{1,9})(?:, in (.+))?$")
_ARROW = re.compile(r"^-+> ?\d+ (.*)$")
_REPEATED = re.compile(r"repeated (\d{1,9}) more time|skipping similar frames.*?\((\d{1,9}) times\)")
_GROUP = re.compile(r"^ +\| ?")
_MEMBER = re.compile(r"^ +(?:\+-)?\+-+ (?:\d+|\.\.\.) -+$|^ +\+-+$")
_CALLED = re.compile(r"^([\w./*()\[\]-]+)\([^()]*\)$")
_TOP = ("<module>", "<main>", "main chunk", "Object.<anonymous>")  # how languages call the code outside of functions
_CELL = re.compile(r"(?:^|/)cell-(\d{1,9})(?:\.[jt]s)?$")
# Where other languages write a call: patterns with groups `file` and `line`, and perhaps `column` and `function`.
_OTHERS = tuple(
    re.compile(pattern)
    for pattern in (
        # JavaScript and TypeScript
        r"^\s+at (?:async )?(?:(?P<function>[^()]+?(?: \[as [^\]]+\])?) \()?(?:file://)?"
        r"(?P<file>[^\s():][^():]*|node:[^():]+):(?P<line>\d{1,9}):(?P<column>\d{1,9})\)?(?: \{)?$",
        # Java
        r"^\s+at (?P<function>[\w.$<>/@-]+)\((?P<file>[\w$-]+\.(?:java|kt|scala)):(?P<line>\d{1,9})\)$",
        # Ruby, before and since 3.4
        r"^(?:\s+from )?(?P<file>[^\s:]+):(?P<line>\d{1,9}):in [`'](?P<function>[^']+)'",
        # PHP: the place of the exception, then its callers
        r"^.*\bUncaught .* in (?P<file>/\S+):(?P<line>\d{1,9})$",
        r"^#\d+ (?P<file>/[^(]+)\((?P<line>\d{1,9})\): (?P<function>.+)$",
        # Go
        r"^\t(?P<file>/\S+\.go):(?P<line>\d{1,9})(?: \+0x[0-9a-f]+)?$",
        # Lua
        r"^\t(?P<file>[^\s:\[][^\s:]*):(?P<line>\d{1,9}): in (?P<function>.+)$",
        # Rust
        r"^thread .* panicked at (?P<file>[^\s:]+):(?P<line>\d{1,9}):(?P<column>\d{1,9}):$",
        # Perl
        r"^.* at (?P<file>/\S+) line (?P<line>\d{1,9})\.$",
        # Bash
        r"^(?P<file>/\S+): line (?P<line>\d{1,9}): ",
    )
)
_LIBRARY = re.compile(r"/(?:site-packages|dist-packages|node_modules|\.cargo|\.local/lib|gems)/|^node:|^<|^internal/")
_JAVA_LIBRARY = re.compile(r"^(?:java|javax|jdk|sun|com\.sun)[./]|^java\.\w+/")


def raised_in(name: str, message: str, text: str) -> tuple[Raised, ...]:
    """Return the exceptions of a traceback, the newest first; none if the text has no call."""
    lines = [line[:_LINE].rstrip("\r") for line in text.split("\n", _MAX_LINES)[:_MAX_LINES]]
    if any(_PYTHON.match(line) or _IPYTHON.match(line) for line in (_GROUP.sub("", line) for line in lines)):
        found = _python(lines, name, message)
    else:
        found = _other(lines, name, message)
    return tuple(found) if any(one.frames for one in found) else ()


# --- Python, which writes the oldest exception and the outermost call first


def _python(lines: list[str], name: str, message: str) -> list[Raised]:
    if any(_MEMBER.match(line) for line in lines):
        end = next(number for number, line in enumerate(lines) if _MEMBER.match(line))
        lines = [_GROUP.sub("", line) for line in lines[:end]]  # the members are in the text
    blocks: list[tuple[list[str], str]] = [([], "")]
    for line in lines:
        link = next((link for words, link in _CHAINED.items() if line.startswith(words)), "")
        if link:
            blocks.append(([], link))
        else:
            blocks[-1][0].append(line)
    found: list[Raised] = []
    link = ""
    for body, to_older in reversed(blocks[-MAX_RAISED:]):
        frames, repeated = _python_frames(body)
        about = (name, message) if not found else _last_raised(body)
        found.append(_raised(*about, link, frames[::-1], repeated))
        link = to_older
    return found


def _python_frames(lines: list[str]) -> tuple[list[StackFrame], int]:
    frames, repeated = [], 0
    for number, line in enumerate(lines):
        if again := _REPEATED.search(line):
            repeated += int(again[1] or again[2])
        elif plain := _PYTHON.match(line):
            code = lines[number + 1] if number + 1 < len(lines) else ""
            is_code = code.startswith("    ") and not _PYTHON.match(code)
            file, cell = _source(plain[1])
            frames.append(_frame(file, cell, plain[2], plain[3], code if is_code else ""))
        elif rich := _IPYTHON.match(line):
            file, cell = _source(rich[1] or "") if rich[1] else ("", int(rich[2]))
            where = re.sub(r"\(.*", "", rich[4] or "")
            frames.append(_frame(file, cell, rich[3], where, _marked(lines[number + 1 :])))
    return frames, repeated


def _marked(lines: list[str]) -> str:
    """Return the line of code at IPython's arrow, or below the place of a syntax error."""
    for number, line in enumerate(lines[:20]):
        if found := _ARROW.match(line):
            return found[1]
        if _IPYTHON.match(line) or (not line and number):
            break
    return lines[0] if lines and lines[0].startswith("    ") else ""


def _last_raised(lines: list[str]) -> tuple[str, str]:
    """Return the exception that follows the calls of a block."""
    for line in reversed(lines):
        if line and not line.startswith((" ", "-", "File ", "Cell In")) and (found := _RAISED.match(line)):
            return found[1], found[2] or ""
    return "", ""


# --- other languages, which write the newest exception and the innermost call first


def _other(lines: list[str], name: str, message: str) -> list[Raised]:
    blocks: list[tuple[tuple[str, str], list[StackFrame]]] = [((name, message), [])]
    function = ""  # Go names it in the line before
    quoted = _quoted(lines)
    for line in lines:
        if (nested := _NESTED.match(line)) and len(blocks) < MAX_RAISED:
            blocks.append(((nested[1], nested[2] or ""), []))
        elif frame := _other_frame(line, function, quoted):
            blocks[-1][1].append(frame)
        function = called[1] if (called := _CALLED.match(line)) else ""
    return [_raised(*about, "cause" if number else "", frames) for number, (about, frames) in enumerate(blocks)]


def _quoted(lines: list[str]) -> tuple[str, str]:
    """Return the place and the line of code with which Node's message begins."""
    if len(lines) > 2 and re.match(r"^\S+:\d{1,9}$", lines[0]) and re.match(r"^\s*\^+$", lines[2]):
        return lines[0], lines[1]
    return "", ""


def _other_frame(line: str, function: str, quoted: tuple[str, str]) -> StackFrame | None:
    for pattern in _OTHERS:
        if found := pattern.match(line):
            groups = found.groupdict()
            file, cell = _source(groups["file"])
            name = groups.get("function") or function
            code = quoted[1] if quoted[0] == f"{groups['file']}:{groups['line']}" else ""
            frame = _frame(file, cell, groups["line"], name, code, groups.get("column") or "0")
            is_javas = file.endswith(".java") and _JAVA_LIBRARY.match(name) is not None
            return frame.replace(is_own=False) if is_javas else frame
    return None


# --- all of them


def _source(path: str) -> tuple[str, int | None]:
    """Return the file of a call, or the number of the cell."""
    if found := _CELL.search(path):
        return "", int(found[1])
    if found := re.match(r"^<ipython-input-(\d{1,9})-\w+>$", path):
        return "", int(found[1])
    return _HOME + path[2:] if path.startswith("~/") else path, None


def _frame(file: str, cell: int | None, line: str, function: str | None, code: str, column: str = "0") -> StackFrame:
    name = (function or "").strip().removesuffix("()")
    return StackFrame(
        file[:MAX_TEXT],
        int(line),
        int(column),
        "" if name in _TOP else name[:MAX_TEXT],
        code.strip()[:MAX_TEXT],
        cell,
        cell is not None or _is_own(file),
    )


def _is_own(file: str) -> bool:
    """Return whether a file is the user's: below /sandbox or /tmp, or relative to the program, and of no package."""
    if _LIBRARY.search(file):
        return False
    return not file.startswith("/") or file.startswith((_HOME, "/tmp/"))


def _raised(name: str, message: str, link: str, frames: list[StackFrame], repeated: int = 0) -> Raised:
    most = MAX_OLDER if link else MAX_FRAMES
    kept = frames if len(frames) <= most else frames[: most // 2] + frames[-most // 2 :]
    return Raised(name[:MAX_TEXT], message[:MAX_MESSAGE], link, tuple(kept), len(frames) - len(kept) + repeated)
