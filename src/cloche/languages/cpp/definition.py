"""C++, compiled by GCC or Clang; the headers that most programs begin with are precompiled."""

from __future__ import annotations

from cloche.languages.c import compiler, linking
from cloche.languages.language import Language, Plan, Preparation, Project
from cloche.languages.toolchain import FoundTools, Toolchain

_STANDARD, _NEWER = "-std=gnu++20", "-std=gnu++23"
# Features of the newer standard only; programs without them can use the precompiled headers.
_NEW = (
    r"#\s*include\s*<(?:expected|print|generator|mdspan|flat_map|flat_set|spanstream|stacktrace|stdfloat)>"
    r"|\bviews::(?:zip|enumerate|chunk|slide|stride|adjacent|join_with|cartesian_product|repeat|as_const)\w*\b"
    r"|\bstd::(?:to_underlying|unreachable|byteswap|move_only_function|println?|ranges::(?:to|contains|fold_left))\b"
    r"|\bif\s+(?:not\s+|!\s*)?consteval\b|\.contains\s*\(\s*[\"']|\b\d+(?:uz|zu|UZ|ZU)\b"
)
# A precompiled header may contain only headers that the program includes anyway: others could bring clashing names.
_PRECOMPILED = {
    "input_output": ("iostream",),
    "with_vectors": ("iostream", "vector"),
    "with_algorithms": ("iostream", "vector", "algorithm"),
    "everything": ("bits/stdc++.h",),
}


def plan(project: Project, found: FoundTools) -> Plan:
    """Compile the project's files into one program; a snippet gets the `main` and the headers that it lacks."""
    is_new = _is_new(project.text or "", *project.texts.values())
    options, whole = [_NEWER if is_new else _STANDARD, "-pipe"], None
    if project.text is None or len(project.text) > compiler.MAX_LOOKED_AT:
        return compiler.plan(project, found, options)
    missing: tuple[str, ...] = ()
    if project.snippet:
        missing, whole = _completed(project.text, project.entry.removeprefix(f"{project.root}/"))
    if found.prepared is not None and not is_new and len(compiler.sources(project)) == 1:
        options += _precompiled(found.prepared, project.text, missing)
    for header in missing:
        options += ["-include", header]
    return compiler.plan(project, found, options, whole)


def _is_new(*texts: str) -> bool:
    from re import search

    return any(search(_NEW, text) for text in texts)


def _completed(text: str, name: str) -> tuple[tuple[str, ...], str | None]:
    """Return the headers that a snippet lacks, and the snippet with the `main` and the namespace that it lacks."""
    from cloche.languages.c import headers, snippet

    namespace = "using namespace std;" if headers.forgets_namespace(text) else ""
    whole = snippet.wrapped(text, name, namespace)
    if whole is None and namespace:
        whole = snippet.preceded(text, name, namespace)
    return headers.missing_in_cpp(f"{text}\n{namespace}" if whole is not None else text), whole


def _precompiled(folder: str, text: str, added: tuple[str, ...]) -> list[str]:
    """Choose the precompiled header that fits the headers that a source begins with, and those added to it."""
    from cloche.languages.c.snippet import leading_includes

    named = leading_includes(text).union(added)
    fitting = [name for name, headers in _PRECOMPILED.items() if named.issuperset(headers)]
    return ["-include", f"{folder}/{fitting[-1]}.h"] if fitting else []


def _prepare(found: FoundTools, folder: str) -> None:
    """Determine how to link, and compile the headers; Clang's are bound to their path, so for Clang they stay text."""
    import subprocess

    linking.prepare(found, folder, HELLO, ".cpp")
    version = subprocess.run([found.on_host, "--version"], capture_output=True, check=True, timeout=60).stdout
    for name, headers in _PRECOMPILED.items():
        source = f"{name}.h"  # programs can see this name, so it must not be a path of the host
        with open(f"{folder}/{source}", "w") as file:
            file.write("".join(f"#include <{header}>\n" for header in headers))
        if b"clang" not in version:
            command = [found.on_host, _STANDARD, *compiler.FLAGS, "-x", "c++-header", source, "-o", f"{source}.gch"]
            subprocess.run(command, cwd=folder, check=True, stdin=subprocess.DEVNULL, timeout=600)


HELLO = '#include <iostream>\n\nint main() {\n    std::cout << "Hello from C++\\n";\n}\n'

LANGUAGE = Language(
    name="cpp",
    title="C++",
    main="main.cpp",
    extensions=(*compiler.CPP, ".hpp", ".hh", ".hxx"),
    aliases=("c++", "cxx", "cc", "g++", "clang++", "cpp17", "cpp20", "c++17", "c++20", "cpp23", "c++23"),
    toolchain=Toolchain(
        programs=("c++",),
        folders=("/opt/gcc*/bin", "/usr/lib/llvm-*/bin", "~/.local/bin"),
        least="10",
        apt=("g++",),
        otherwise="Install GCC or Clang with their C++ library, so that `c++` compiles.",
    ),
    plan=plan,
    entries=("main.cc", "main.cxx", "app.cpp", "program.cpp"),
    source_folders=("src",),
    reads=(*compiler.CPP, ".c"),
    diagnose=compiler.diagnose,
    explain=compiler.explain,
    preparation=Preparation("the most used headers, compiled", _prepare, version=3),
    hello=HELLO,
)
