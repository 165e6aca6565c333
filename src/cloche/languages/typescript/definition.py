"""TypeScript: bundled by esbuild, run by Node, and checked by its own compiler at the same time."""

import re
from json import dumps

from cloche.languages.diagnostics import MAX_DIAGNOSTICS, number, shown_name
from cloche.languages.javascript import definition as javascript
from cloche.languages.javascript import errors, manifest, modules
from cloche.languages.javascript.heap import heap
from cloche.languages.language import SCRATCH, Language, Plan, Project, Step
from cloche.languages.toolchain import FoundTools
from cloche.languages.typescript import checker
from cloche.model.result import Diagnostic

_BUNDLER = "/opt/env/bin/esbuild"
_PLACE = "/opt/env/share/typescript/place.js"
_SOURCES = (".ts", ".mts", ".cts", ".tsx")
# Decorators from before the standard: only they have parameters for descriptors and property keys.
_LEGACY_DECORATOR = re.compile(
    r"\b(?:PropertyDescriptor|propertyKey|parameterIndex|target: (?:any|Object|Function),(?!\s*(?:_?context|ctx|\{)))"
)
_STANDARD_DECORATOR = "DecoratorContext"
# main.ts(3,7): error TS2322: …, or the same without a place; continuation lines are indented
_CHECKED = re.compile(
    r"^(?:(?P<file>[^\n]+?)\((?P<line>\d+),(?P<column>\d+)\): )?(?P<severity>error|warning|message) "
    r"(?P<code>TS\d+): (?P<message>[^\n]*(?:\n[ \t]+[^\n]*)*)",
    re.MULTILINE,
)
# ✘ [ERROR] Expected ";" but found "x"  and below, indented by four: main.ts:3:7:
_BUNDLED = re.compile(
    r"^\S+ \[(?P<severity>ERROR|WARNING)\] (?P<message>[^\n]*?)(?: \[(?P<code>[-\w]+)\])?\n"
    r"(?:\n {4}(?P<file>[^\n]+):(?P<line>\d+):(?P<column>\d+):\n)?",
    re.MULTILINE,
)


def plan(project: Project, found: FoundTools) -> Plan:
    """Bundle the program, then run it; the check runs at the same time, or first if it is to block."""
    source = project.text or ""
    legacy = "@" in source and _STANDARD_DECORATOR not in source and _LEGACY_DECORATOR.search(source) is not None
    bundled, bundle = _bundle(project, source, legacy)
    run = (found["node"], *heap(project), "--enable-source-maps", bundled)
    if project.check == "off":
        return Plan(run, (bundle,))
    check, files = checker.check(project, legacy)
    if project.check == "block":
        return Plan(run, (check, bundle), files=files)
    return Plan(run, (bundle,), beside=check, files=files)


def _bundle(project: Project, source: str, legacy: bool) -> tuple[str, Step]:
    """Return the file to run, and the step that makes it."""
    alone = sum(name.endswith(_SOURCES) for name in project.files) <= 1 and project.text is not None
    code = modules.code_of(source)
    esm = not alone or len(source) > modules.LONGEST or modules.waits(code)
    stem = project.entry.strip("/").replace("/", "-")[-100:]
    bundled = f"{SCRATCH}/{stem}.{'mjs' if esm else 'cjs'}"
    argv = [_BUNDLER, project.entry, "--bundle", "--platform=node", "--target=node18", f"--outfile={bundled}"]
    argv += ["--sourcemap=inline", "--sources-content=false", "--charset=utf8", "--log-level=warning", "--color=false"]
    argv += [f"--format={'esm' if esm else 'cjs'}", "--external:*.node", "--log-override:empty-import-meta=silent"]
    argv += [f"--banner:js={_banner(project, esm)}", *_places(project, alone)]
    if not alone:
        argv.append("--keep-names")
    if not project.has("tsconfig.json"):
        options = {"alwaysStrict": True, "useDefineForClassFields": not legacy, "experimentalDecorators": legacy}
        argv.append(f"--tsconfig-raw={dumps({'compilerOptions': options})}")
    return bundled, Step("compile", tuple(argv), project.root)


def _banner(project: Project, esm: bool) -> str:
    """Return code that makes the bundle believe that it is the entry."""
    name = f"process.argv[1]={dumps(project.entry)};"
    if not esm:
        return name
    required = f"globalThis.require=clocheRequire({dumps(project.entry)});globalThis.module={{exports:{{}}}};"
    return f'import{{createRequire as clocheRequire}}from"node:module";{name}{required}'


def _places(project: Project, alone: bool) -> list[str]:
    """Return the options that tell a module its path, in all forms; known in advance if there is only one module."""
    expressions = {"__filename": "filename", "__dirname": "dirname"}
    expressions |= {"import.meta.url": "url", "import.meta.filename": "filename", "import.meta.dirname": "dirname"}
    if not alone:
        defined = [f"--define:{name}=clochePlace.{place}" for name, place in expressions.items()]
        return [*defined, "--define:require.main=clochePlace.main", f"--inject:{_PLACE}"]
    known = {"filename": project.entry, "dirname": project.folder, "url": _url(project.entry)}
    return [f"--define:{name}={dumps(known[place])}" for name, place in expressions.items()]


def _url(path: str) -> str:
    from urllib.parse import quote

    return f"file://{quote(path)}"


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Read the errors of the checker, the bundler or Node."""
    found = [_checked(match, project) for match in _CHECKED.finditer(output)]
    found += [_bundled(match, project) for match in _BUNDLED.finditer(output)]
    return tuple(found[:MAX_DIAGNOSTICS]) or errors.diagnose(output, project)


def _checked(match: re.Match[str], project: Project) -> Diagnostic:
    file, line, column = shown_name(match["file"] or "", project), number(match["line"]), number(match["column"])
    severity = "note" if match["severity"] == "message" else match["severity"]
    if checker.IMPLICIT.fullmatch(match["code"]) and not project.has("tsconfig.json"):
        severity = "warning"
    return Diagnostic(file, line, column, match["message"][:4000], severity, match["code"])


def _bundled(match: re.Match[str], project: Project) -> Diagnostic:
    message, severity = match["message"], match["severity"].lower()
    if missing := re.fullmatch(r'Could not resolve "([^."/].*)"', message):
        message = f"The package {missing[1]!r} was not found: add it to the project's files, in node_modules."
    file, line = shown_name(match["file"] or "", project), number(match["line"])
    column = number(match["column"]) + 1 if match["column"] else 0
    return Diagnostic(file, line, column, message, severity, match["code"] or "")


LANGUAGE = Language(
    name="typescript",
    title="TypeScript",
    main="main.ts",
    extensions=_SOURCES,
    aliases=("ts", "tsx"),
    companions=(".json",),
    toolchain=javascript.TOOLCHAIN.replace(package="typescript"),
    plan=plan,
    entries=("index.ts", "main.mts", "index.mts", "main.cts", "app.ts", "server.ts", "main.tsx", "index.tsx"),
    manifests=("tsconfig.json", "package.json"),
    reads=("tsconfig.json",),
    manifest_entries=manifest.manifest_entries,
    diagnose=diagnose,
    explain=errors.explain,
    hello='const name: string = "TypeScript";\nconsole.log(`Hello from ${name}`);\n',
    ahead="files",
    kernel=javascript.LANGUAGE.kernel,
    context="javascript",
)
