"""The tool `environment_list`, with which a model finds the environments that it can start sessions from."""

from __future__ import annotations

import mcp_types as types

from cloche.doors.mcp.conversation import Visit
from cloche.doors.mcp.sessions import NoArguments
from cloche.doors.mcp.tool import Answer, Tool, ToolAnswer, success

_MAX_LISTED, _MAX_PACKAGES = 100, 100


class ListedEnvironment(Answer):
    """An environment: packages and files from which a session can start."""

    name: str
    """Pass it as `environment` when a session starts."""
    packages: list[str]
    """The packages that it adds, with versions."""
    imported: list[str]
    """Modules that a session has imported already."""


class EnvironmentsAnswer(ToolAnswer):
    environments: list[ListedEnvironment]


async def listed(visit: Visit, _: NoArguments) -> types.CallToolResult:
    """List the environments that are ready."""
    found = [
        ListedEnvironment(
            name=each.name,
            packages=[f"{one.name} {one.version}" for one in each.environment.packages[:_MAX_PACKAGES]],
            imported=list(each.environment.imports),
        )
        for each in (await visit.service.environments.list(visit.caller))[:_MAX_LISTED]
        if each.environment is not None
    ]
    lines = [f"{each.name}: {', '.join(each.packages) or 'no further packages'}" for each in found]
    return success("\n".join(lines) or "There are no environments.", EnvironmentsAnswer(environments=found))


TOOLS = (
    Tool(
        "environment_list",
        "List environments",
        "List the environments from which a session can start: sets of packages and files that were built before. Pass "
        "a name as `environment` to code_execution when it starts a session, or to session_create.",
        NoArguments,
        EnvironmentsAnswer,
        listed,
        reads=True,
    ),
)
