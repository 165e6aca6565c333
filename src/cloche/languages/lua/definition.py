"""Lua, or LuaJIT where Lua is not installed."""

from __future__ import annotations

from cloche.languages.diagnostics import by_lines
from cloche.languages.language import Failure, Language, Plan, Project
from cloche.languages.toolchain import FoundTools, Toolchain
from cloche.model.result import Diagnostic

_PROGRAM = r"(?m)^(?:\S*/)?lua(?:jit)?[\d.-]*: "  # the name of the interpreter, which precedes the error
_PLACED = r"^(?:(?:\S*/)?lua(?:jit)?[\d.-]*: )?(?P<file>[^\s:][^:\n]*):(?P<line>\d+): (?P<message>.*)$"
_TRACE = "\nstack traceback:\n"
# The parser's errors; all others come with a stack traceback.
_PARSER = (" near ", "no visible label", "break outside", "attempt to assign to const", "too many local variables")


def plan(project: Project, found: FoundTools) -> Plan:
    """Run the entry; modules are searched beside it and in the project's root, then in Lua's usual places."""
    if project.snippet:
        return Plan(run=(found.first, project.entry))
    folders = dict.fromkeys((project.folder, project.root, f"{project.root}/lib"))
    places = (f"{folder}/?.lua;{folder}/?/init.lua" for folder in folders)
    return Plan(run=(found.first, project.entry), env={"LUA_PATH": ";".join((*places, ";"))})


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Read the parser's errors."""
    return by_lines(output, _PLACED, project)


def explain(stderr: str) -> Failure | None:
    """Find the uncaught error."""
    from re import finditer, match

    starts = [found.end() for found in finditer(_PROGRAM, stderr)]
    if not starts:
        return None
    text = stderr[starts[-1] :].rstrip("\n")
    head, trace, _ = text.partition(_TRACE)
    placed = match(_PLACED, head.split("\n", 1)[0])
    message = head[placed.start("message") :] if placed else head
    if message.startswith("not enough memory"):
        return Failure("runtime", "OutOfMemoryError", message, text)
    if not trace and placed and any(sign in message for sign in _PARSER):
        return Failure("syntax", "SyntaxError", message, text)
    return Failure("runtime", "error", message, text)


LANGUAGE = Language(
    name="lua",
    title="Lua",
    main="main.lua",
    extensions=(".lua",),
    aliases=("luajit", "lua5", "lua5.4", "lua5.3"),
    toolchain=Toolchain(
        programs=("lua5.4",),
        instead=(("lua54",), ("lua-5.4",), ("lua",), ("lua5.3",), ("luajit",), ("lua5.2",), ("lua5.1",)),
        folders=(
            "~/.luaenv/versions/*/bin",
            "$ASDF_DATA_DIR/installs/lua/*/bin",
            "~/.asdf/installs/lua/*/bin",
            "~/.local/share/mise/installs/lua/*/bin",
            "/home/linuxbrew/.linuxbrew/opt/lua/bin",
        ),
        version=("-v",),
        least="2.1",  # LuaJIT has version numbers of its own
        apt=("lua5.4",),
        otherwise="Install Lua 5.1 or later, or LuaJIT.",
    ),
    plan=plan,
    entries=("init.lua", "app.lua", "run.lua"),
    diagnose=diagnose,
    explain=explain,
    ahead="files",
    hello='print("Hello from Lua")\n',
)
