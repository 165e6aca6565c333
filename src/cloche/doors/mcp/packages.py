"""The `packages_*` tools, and the packages that `code_execution` installs before it runs code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import mcp_types as types
from pydantic import Field

from cloche.doors.mcp.conversation import Visit
from cloche.doors.mcp.sessions import Packages, Session
from cloche.doors.mcp.tool import Answer, Tool, ToolAnswer, ToolArguments, success
from cloche.results.cleaning import clean

Language = Literal["python", "javascript"]
_SHOWN = 30  # packages that a text names


class Installed(Answer):
    """The packages that were installed, with all that they need."""

    installed: list[str]
    """Names with versions."""
    present: list[str]
    """Packages that were there already, with versions."""
    warnings: list[str]
    restart: list[str]
    """Packages that running code has imported in another version: call session_restart to use the new one."""

    @property
    def text(self) -> str:
        """The outcome for a model."""
        lines = [f"Installed: {_listed(self.installed)}." if self.installed else "All packages are there already."]
        lines += [f"Warning: {text}" for text in self.warnings]
        if self.restart:
            lines.append(f"The session has loaded other versions of {_listed(self.restart)}: restart it to use these.")
        return "\n".join(lines)


class InstallArguments(ToolArguments):
    packages: Annotated[Packages, Field(min_length=1)]
    """Names with versions if needed: 'polars', 'httpx>=0.27'; for JavaScript 'lodash@4'."""
    language: Language = "python"
    """The language that the packages are for."""
    session: Session = None


class InstallAnswer(Installed, ToolAnswer):
    session: str


class SearchArguments(ToolArguments):
    query: Annotated[str, Field(min_length=1, max_length=100)]
    """A name or a part of one, or a word such as 'pdf'."""
    language: Language = "python"
    """The language that the package should be for."""


class FoundPackage(Answer):
    """A package of the index."""

    name: str
    version: str
    """The newest one; empty if it is not known."""
    summary: str
    installed: str | None = None
    """The version that every session has, if it has one."""


class SearchAnswer(ToolAnswer):
    packages: list[FoundPackage]
    warnings: list[str]


async def install(visit: Visit, session: str, packages: Sequence[str], language: str) -> Installed:
    """Install packages in a session."""
    if visit.progress is not None:
        await visit.progress(0.0, f"Installing {_listed([clean(each) for each in packages])}.")
    done = await visit.service.packages.install(visit.caller, session, packages, language=language)
    return Installed(
        installed=[f"{each.name} {each.version}" for each in done.packages],
        present=[f"{each.name} {each.version}" for each in done.satisfied],
        warnings=[clean(text) for text in done.warnings],
        restart=[clean(name) for name in done.restart],
    )


async def _install(visit: Visit, arguments: InstallArguments) -> types.CallToolResult:
    session = await visit.sandbox(arguments.session, makes=True)
    done = await install(visit, session, arguments.packages, arguments.language)
    return success(done.text, InstallAnswer(session=session, **done.model_dump()))


async def _search(visit: Visit, arguments: SearchArguments) -> types.CallToolResult:
    found = await visit.service.packages.search(visit.caller, arguments.query, language=arguments.language)
    packages = [
        FoundPackage(name=each.name, version=each.version, summary=clean(each.summary), installed=each.installed)
        for each in found
    ]
    lines = [
        f"{each.name} {each.version}{f' (every session has {each.installed})' if each.installed else ''}"
        + (f": {each.summary}" if each.summary else "")
        for each in packages
    ]
    text = "\n".join([*(lines or ["No package was found."]), *(f"Warning: {each}" for each in found.warnings)])
    return success(text, SearchAnswer(packages=packages, warnings=list(found.warnings)))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


TOOLS = (
    Tool(
        "packages_install",
        "Install packages",
        "Install packages from the server's package index into a session, with everything that they need. Code that "
        "runs in the session afterwards can import them at once; no network access is needed. code_execution can do "
        "the same before it runs code: pass `packages`. The server's policy decides what may be installed; a refusal "
        "names the rule.",
        InstallArguments,
        InstallAnswer,
        _install,
        idempotent=True,
        connects=True,
    ),
    Tool(
        "packages_search",
        "Search packages",
        "Search the packages that can be installed, by name or by a word of their description, with newest versions. "
        "Use it when you are not sure of a package's name: many names that sound right belong to other packages.",
        SearchArguments,
        SearchAnswer,
        _search,
        reads=True,
        connects=True,
    ),
)
