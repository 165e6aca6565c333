"""Words a hint for the place where it appears: `timeout=` in Python is `--timeout` on the command line.

Code below the doors writes hints in the words of the Python library (`allow more time with timeout=.`) or, where only a
server can have the problem, of HTTP (`GET /v1/runs lists your runs.`).  Each door passes them through `worded`, and the
playground does the same with `web/src/api/words.ts`, which is written from SUBJECTS.  To name another argument or
method in a hint, add a row.

A command imports this module only when it has a hint to show.
"""

from __future__ import annotations

import re
from functools import cache

from cloche.model.limits import LIMITS, Limit
from cloche.model.plain import Plain

_LISTS = ("/v1/runs", "/v1/runs/{id}", "/v1/sandboxes", "/v1/workspaces", "/v1/shares", "/v1/keys", "…/commands")
_OPERATOR = "the limit for {}, which the server's operator sets"


class Subject(Plain):
    """Something that hints name, in the words of each place."""

    python: str  # ordinary words where the library has nothing of the kind
    http: str  # also of the WebSocket
    cli: str
    page: str
    mcp: str
    e2b: str

    @property
    def is_named_in_python(self) -> bool:
        """Whether the library has a name for it, and not just ordinary words."""
        return not self.python.endswith(("server", "interface"))


PLACES = Subject._fields


def _limit(row: Limit) -> Subject:
    page = "“Time limit” in Run options" if row.name == "timeout" else f"“{row.title}” in Limits of this sandbox"
    fixed = _OPERATOR.format(row.title[0].lower() + row.title[1:] if row.title != "CPU" else "CPU")
    mcp = {"timeout": "`timeout`", "memory": "`memory` of session_create"}.get(row.name, fixed)
    option = f"--{row.name.replace('_', '-')}"
    return Subject(f"{row.name}=", f"`{row.name}`", option, page, mcp, "`timeout`" if row.name == "timeout" else fixed)


# fmt: off
SUBJECTS = (
    *map(_limit, LIMITS),
    Subject("stdin=", "`stdin`", "a pipe", "“Standard input” in Run options", "a file", "a file"),
    Subject("interactive=True", '"interactive": true', "a terminal", "an empty “Standard input” in Run options",
            "another interface", "`stdin`"),
    Subject("Sandbox(undo=True)", '"undo": true', "a new server", "a new session", "`undo` of session_create",
            "another interface"),
    Subject("checkpoints=", "`checkpoints`", "a new sandbox", "a new session", "a new session", "a new sandbox"),
    Subject("isolation=", "`isolation`", "--isolation", "the isolation", "the isolation", "the isolation"),
    Subject("url=", "`url`", "--url", "its address", "its address", "its address"),
    Subject("api_key=", "`api_key`", "--api-key", "a key", "a key", "`api_key`"),
    Subject("network=", "`network`", "--network", "“Allow” in the panel Network", "`network`",
            '`network={"allow_out": […]}`'),
    Subject("box.contexts.list()", "GET …/contexts", "The server", "The server", "The server", "The server"),
    Subject("box.contexts.create()", "POST …/contexts", "a new context", "a new branch", "a new session",
            "`create_code_context`"),
    Subject("box.checkpoints.list()", "GET …/checkpoints", "The server", "The timeline", "The server", "The server"),
    Subject("box.run_program", "POST …/commands", "cloche run", "“As a program” in Run options", "code_execution",
            "`commands.run`"),
    Subject("box.files.write", "PUT …/files/{path}", "--file", "the panel Files", "files_write", "`files.write`"),
    Subject("box.restart()", "POST …/restart", "a new sandbox", "“Restart the session”", "session_restart",
            "`restart_code_context`"),
    Subject("box.resume()", "POST /v1/sandboxes/{id}/resume", "a request to the server", "the start page",
            "a new session", "`connect`"),
    *(Subject(f'language="{name}"', f'"language": "{name}"', f"--language {name}", title, f'language "{name}"',
              f'`language` "{name}"') for name, title in (("sql", "SQL"), ("sqlite", "SQLite"))),
    Subject("the HTTP interface", "POST /v1/keys", *["the HTTP interface"] * 4),
    *(Subject("The server", f"GET {path}", *["The server"] * 4) for path in _LISTS),
)
# fmt: on


# The argument that allows a host: `network=["api.example.org"]`, in the words of Python or of HTTP.
ALLOWED = re.compile(r"""(?:network=|"network": )\["([^"\]]+)"\]""")
ALLOW = Subject(
    r'network=["\1"]',
    r'"network": ["\1"]',
    r"--network \1",
    "“Allow” in the panel Network",
    r'`network` ["\1"]',
    r'`network={"allow_out": ["\1"]}`',
)


# The argument that names packages: `packages=["polars"]`, `packages={"javascript": ["lodash"]}`; also in HTTP's words.
PACKAGES = re.compile(r"""(?:packages=|"packages": )(?:\["([^\]]+)"\]|\{"(\w+)": \["([^\]]+)"\]\})""")


def _packages(found: re.Match[str], place: str) -> str:
    listed, language = found[1] or found[3], found[2]
    value = f'["{listed}"]' if language is None else f'{{"{language}": ["{listed}"]}}'
    first, is_npm = listed.partition('"')[0], language == "javascript"
    words = {
        "python": f"packages={value}",
        "cli": f"--with {'npm:' if is_npm else ''}{first}",
        "mcp": f"`packages` {value}",
        "e2b": f"{'npm' if is_npm else 'pip'} install {first}",
    }
    return words.get(place, f'"packages": {value}')


def worded(text: str, place: str) -> str:
    """Return a text with every subject in the words of a place, whether they were those of Python or of HTTP."""
    if not text:
        return text
    if "network" in text:
        text = ALLOWED.sub(getattr(ALLOW, place), text)
    if "packages" in text:
        text = PACKAGES.sub(lambda match: _packages(match, place), text)
    found, words = _table(place)
    return found.sub(lambda match: words[match[0]], text)


@cache
def _table(place: str) -> tuple[re.Pattern[str], dict[str, str]]:
    words = {}
    for subject in SUBJECTS:
        to: str = getattr(subject, place)
        words[subject.http] = to
        if subject.is_named_in_python:
            words[subject.python] = to
    names = sorted(words, key=len, reverse=True)
    # `timeout=`, but not the end of `build_timeout=` or the beginning of `timeout=5`; `/v1/runs`, but not `/v1/runs/1`.
    return re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, names))})(?![\w\"'\[/({{])"), words
