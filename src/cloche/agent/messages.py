"""The shapes of requests and orders, for type checkers and readers only: nothing imports this module at run time.

The engine writes the requests (RUN, CELL and CALL frames); the agent passes orders to the Pythons that it forks.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    class TerminalRequest(TypedDict, total=False):
        """A terminal: its size in characters, and the streams that use it (all of them, if that is left out)."""

        columns: int
        rows: int
        streams: list[int]  # which of 0, 1 and 2 are the terminal; the others are pipes

    class StepRequest(TypedDict, total=False):
        """A compiler or checker to run before a program or beside it."""

        name: str
        argv: list[str]
        env: dict[str, str]
        cwd: str

    class RunRequest(TypedDict, total=False):
        """A RUN frame: a program, given as `argv` or as a `python` script with `args`."""

        argv: list[str]
        python: str
        args: list[str]
        env: dict[str, str]
        cwd: str
        input: bool
        terminal: TerminalRequest | None
        awaited: bool  # the engine wants STARTED at once
        artifacts: bool  # the engine wants the files that the program leaves in the output folder
        sources: list[tuple[str, str]]  # path and text of files to write first
        before: list[StepRequest]
        beside: StepRequest | None

    class KernelStart(TypedDict, total=False):
        """How to start a kernel: a fork that becomes the kernel `fork`, or the program `argv`."""

        fork: str
        needs: str  # a program that a forked kernel drives
        argv: list[str]
        ends_input: bool  # an interrupt ends the cell's input: while the interpreter reads it, nothing else stops it

    class ContextDescription(TypedDict):
        """How to create a context; the agent makes `cwd` absolute."""

        how: KernelStart
        cwd: str
        env: dict[str, str]
        tools: list[str]

    class CellRequest(TypedDict, total=False):
        """A CELL frame: code for a context, and the context's description in case it does not exist."""

        context: str
        create: ContextDescription | None
        code: str
        env: dict[str, str]
        language: str
        input: bool | str  # "interactive": input may follow while the cell runs
        shows: dict[str, Any]
        timeout: float | None

    class ProgramOrder(TypedDict, total=False):
        """The order to a forked Python to become a program."""

        script: str
        args: list[str]
        cwd: str
        env: dict[str, str]
        terminal: str  # the path of a terminal, if some streams are to use one
        streams: list[int]

    class KernelOptions(TypedDict):
        """The surroundings of a kernel, however it is started."""

        cwd: str
        env: dict[str, str]
        tools: list[str]

    class KernelOrder(KernelOptions):
        """The order to a forked Python to become a kernel."""

        kernel: str
