"""Cloche: self-hosted code execution for AI.

A run passes through these packages, in this order:

    cli/          the command line
    doors/        the server's doors: HTTP, WebSocket, MCP, E2B, the pages; each translates, none decides
    service/      the verbs: everything that can be asked of a server, each with a caller
    policy/       says yes or no: keys, scopes, the operator's bounds, mounts, isolation
    store/        keeps records across restarts: a journal, and SQLite or PostgreSQL
    sandbox/      the classes that callers hold: they check arguments, and send requests to a backend (asyncio)
    client/       the backend for sandboxes on a server
    engine/       the backend for sandboxes on this host
    blocking/     the same three for callers without an event loop, generated from them
    languages/    turns source into a command, one folder per language
    egress/       the process through which sandboxes reach the network, by policy
    walls/        the kinds of isolation: walls/jail makes a sandbox in milliseconds
    wire/         the frames between engine and agent
    agent/        runs inside a sandbox: programs, contexts, files, checkpoints
    kernels/      the processes that keep a session's variables, one per context
    results/      shapes results for people and for models

and uses these:

    model/        plain data: Limits, Result, Event, Entry, and the tables of limits and error kinds
    io/           streams and locks, the few parts that differ between asyncio and threads
    environment/  builds the Python that programs find inside
    packages/     resolves, checks and downloads packages, once, into layers that sandboxes share
    templates/    small projects to start from
    bundles/      many of our modules in one file, for a cold start
    doctor/       looks at the host, and attacks the walls (`cloche doctor`)

Importing `cloche` is cheap: every name is loaded when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.sandbox.attempts import Attempt
    from cloche.blocking.sandbox.checkpoints import Checkpoint
    from cloche.blocking.sandbox.contexts import Context
    from cloche.blocking.sandbox.one_shot import run
    from cloche.blocking.sandbox.ports import Connection
    from cloche.blocking.sandbox.processes import Process
    from cloche.blocking.sandbox.sandbox import Sandbox
    from cloche.blocking.sandbox.transfers import Reading, Writing
    from cloche.errors import (
        ClocheError,
        FileMissing,
        FileProblem,
        Gone,
        InvalidRun,
        Misconfigured,
        Refused,
        SandboxFailed,
    )
    from cloche.model.files import Change, Entry, Listing, Mount, Port
    from cloche.model.history import Best, Moment, Restored
    from cloche.model.limits import Limits
    from cloche.model.network import Network, NetworkPolicy
    from cloche.model.network_attempt import NetworkAttempt
    from cloche.model.result import Artifact, Display, Error, Log, Result, ToolCall, Usage
    from cloche.model.secret import Secret
    from cloche.sandbox.attempts import AsyncAttempt
    from cloche.sandbox.checkpoints import AsyncCheckpoint
    from cloche.sandbox.contexts import AsyncContext
    from cloche.sandbox.one_shot import run as async_run
    from cloche.sandbox.ports import AsyncConnection
    from cloche.sandbox.processes import AsyncProcess
    from cloche.sandbox.sandbox import AsyncSandbox
    from cloche.sandbox.transfers import AsyncReading, AsyncWriting

__version__ = "0.1.0"

_WHERE = {
    "run": "blocking.sandbox.one_shot",
    "Sandbox": "blocking.sandbox.sandbox",
    "Process": "blocking.sandbox.processes",
    "Context": "blocking.sandbox.contexts",
    "Checkpoint": "blocking.sandbox.checkpoints",
    "Attempt": "blocking.sandbox.attempts",
    "Reading": "blocking.sandbox.transfers",
    "Writing": "blocking.sandbox.transfers",
    "Connection": "blocking.sandbox.ports",
    "AsyncSandbox": "sandbox.sandbox",
    "AsyncProcess": "sandbox.processes",
    "AsyncContext": "sandbox.contexts",
    "AsyncCheckpoint": "sandbox.checkpoints",
    "AsyncAttempt": "sandbox.attempts",
    "AsyncReading": "sandbox.transfers",
    "AsyncWriting": "sandbox.transfers",
    "AsyncConnection": "sandbox.ports",
    "Result": "model.result",
    "Display": "model.result",
    "Log": "model.result",
    "Artifact": "model.result",
    "ToolCall": "model.result",
    "Best": "model.history",
    "Moment": "model.history",
    "Restored": "model.history",
    "Error": "model.result",
    "Usage": "model.result",
    "Limits": "model.limits",
    "Entry": "model.files",
    "Change": "model.files",
    "Listing": "model.files",
    "Mount": "model.files",
    "Port": "model.files",
    "Network": "model.network",
    "NetworkAttempt": "model.network_attempt",
    "NetworkPolicy": "model.network",
    "Secret": "model.secret",
    "ClocheError": "errors",
    "InvalidRun": "errors",
    "Refused": "errors",
    "Gone": "errors",
    "FileMissing": "errors",
    "FileProblem": "errors",
    "SandboxFailed": "errors",
    "Misconfigured": "errors",
}

__all__ = [
    "Artifact",
    "AsyncAttempt",
    "AsyncCheckpoint",
    "AsyncConnection",
    "AsyncContext",
    "AsyncProcess",
    "AsyncReading",
    "AsyncSandbox",
    "AsyncWriting",
    "Attempt",
    "Best",
    "Change",
    "Checkpoint",
    "ClocheError",
    "Connection",
    "Context",
    "Display",
    "Entry",
    "Error",
    "FileMissing",
    "FileProblem",
    "Gone",
    "InvalidRun",
    "Limits",
    "Listing",
    "Log",
    "Misconfigured",
    "Moment",
    "Mount",
    "Network",
    "NetworkAttempt",
    "NetworkPolicy",
    "Port",
    "Process",
    "Reading",
    "Refused",
    "Restored",
    "Result",
    "Sandbox",
    "SandboxFailed",
    "Secret",
    "ToolCall",
    "Usage",
    "Writing",
    "async_run",
    "run",
    "warm_up",
]


def warm_up() -> None:
    """Have the nurseries ready, libraries imported, before the first run; for servers and benchmarks."""
    from cloche import settings
    from cloche.languages.host_folders import visible_folders
    from cloche.walls.jail.nursery_client import of_this_process

    of_this_process(settings.load(), visible_folders).warm_up()


def __getattr__(name: str) -> object:
    # Also asked for every submodule that is not loaded yet, so nothing is imported before the name is known.
    if name == "async_run":
        found = __import__("cloche.sandbox.one_shot", fromlist=["run"]).run
    elif name in _WHERE:
        found = getattr(__import__(f"cloche.{_WHERE[name]}", fromlist=[name]), name)
    else:
        raise AttributeError(f"module 'cloche' has no attribute {name!r}")
    globals()[name] = found  # not asked again
    return found
