"""The MCP server: its tools and resources, and the dispatch of each request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from cloche import __version__
from cloche.doors.mcp import environments, execution, files, history, packages, resources, sessions
from cloche.doors.mcp.conversation import Conversation, Visit
from cloche.doors.mcp.kept_sessions import KeptSessions
from cloche.policy.caller import Caller
from cloche.service.service import Service

_ALL = (*execution.TOOLS, *sessions.TOOLS, *files.TOOLS, *packages.TOOLS, *environments.TOOLS, *history.TOOLS)
TOOLS = {tool.name: tool for tool in _ALL}
INSTRUCTIONS = """Cloche runs code in isolated sandboxes. Use code_execution whenever computing, data, files or charts \
would give a better answer than guessing. The first call makes a session and returns its id; variables and files \
persist from call to call. If they do not, pass the id as `session` in every further call. \
Put files that the user should have into /sandbox/output."""

Context = ServerRequestContext[Any, Any]
_KEPT = "cloche.conversation"
_STATIC = CacheHint(ttl_ms=3_600_000, scope="public")


def build(service: Service, caller_of: Callable[[Context], Caller], only: Caller | None = None) -> Server[Any]:
    """Build the server for a service; `only` is the caller of its only conversation, if there can be only one."""
    kept = KeptSessions(service)
    own = None if only is None else Conversation(service, only, "stdio", kept, lasts=False)

    def visit(context: Context) -> Visit:
        caller, client = caller_of(context), _client(context)
        conversation = own or _conversation(context, service, caller, client, kept)
        wants_progress = bool(context.meta) and context.meta is not None and "progress_token" in context.meta

        async def progress(elapsed: float, message: str) -> None:
            await context.session.report_progress(elapsed, None, message)

        return Visit(service, caller, client, conversation, kept, progress if wants_progress else None)

    async def list_tools(_: Context, __: object) -> types.ListToolsResult:
        # In a thread, because the first time looks for the tools of all languages.
        return types.ListToolsResult(
            tools=await asyncio.to_thread(lambda: [tool.described() for tool in TOOLS.values()])
        )

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        return await tool.call(visit(context), params.arguments)

    async def list_resources(context: Context, _: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=await resources.listed(visit(context)))

    async def list_templates(_: Context, __: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=resources.TEMPLATES)

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return types.ReadResourceResult(contents=[await resources.read(visit(context), str(params.uri))])

    return Server(
        "cloche",
        version=__version__,
        title="Cloche",
        description="Runs code in isolated sandboxes.",
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": _STATIC, "resources/templates/list": _STATIC},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def _client(context: Context) -> str:
    params = context.session.client_params
    return "" if params is None else params.client_info.name


def _conversation(
    context: Context, service: Service, caller: Caller, client: str, kept: KeptSessions
) -> Conversation | None:
    """Return the conversation of a lasting connection.  It ends with the connection, even if that breaks."""
    # The SDK documents the connection's exit stack for cleanup, but gives handlers only this private way to reach it.
    connection: Connection = context.session._connection
    if connection.session_id is None:
        return None
    if _KEPT not in connection.state:
        conversation = connection.state[_KEPT] = Conversation(service, caller, client, kept, lasts=True)
        connection.exit_stack.push_async_callback(conversation.end)
    found: Conversation = connection.state[_KEPT]
    return found
