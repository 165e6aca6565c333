"""C, compiled by GCC or Clang."""

from __future__ import annotations

from cloche.languages.c import compiler, linking
from cloche.languages.language import Language, Plan, Preparation, Project
from cloche.languages.toolchain import FoundTools, Toolchain


def plan(project: Project, found: FoundTools) -> Plan:
    """Compile the project's C files into one program; a snippet gets the `main` and the headers that it lacks."""
    options, whole = ["-std=gnu17", "-pipe"], None
    if project.snippet and project.text is not None and len(project.text) <= compiler.MAX_LOOKED_AT:
        from cloche.languages.c.headers import missing_in_c
        from cloche.languages.c.snippet import wrapped

        for header in missing_in_c(project.text):
            options += ["-include", header]
        whole = wrapped(project.text, project.entry.removeprefix(f"{project.root}/"))
    return compiler.plan(project, found, options, whole)


HELLO = '#include <stdio.h>\n\nint main(void) {\n    puts("Hello from C");\n    return 0;\n}\n'


def _prepare(found: FoundTools, folder: str) -> None:
    linking.prepare(found, folder, HELLO, ".c")


LANGUAGE = Language(
    name="c",
    title="C",
    main="main.c",
    extensions=(".c", ".h"),
    aliases=("ansi-c", "gcc", "clang", "c99", "c11", "c17"),
    toolchain=Toolchain(
        programs=("cc",),
        folders=("/opt/gcc*/bin", "/usr/lib/llvm-*/bin", "~/.local/bin"),
        least="7",
        apt=("gcc", "libc6-dev"),
        otherwise="Install GCC or Clang with the C library's headers, so that `cc` compiles.",
    ),
    plan=plan,
    entries=("program.c", "app.c"),
    source_folders=("src",),
    reads=(".c",),
    diagnose=compiler.diagnose,
    explain=compiler.explain,
    preparation=Preparation("how to link quickly", _prepare),
    hello=HELLO,
)
