"""Checks a TypeScript program with the real compiler, against as few declarations as possible."""

from __future__ import annotations

import re
from json import dumps

from cloche.languages.javascript import manifest
from cloche.languages.language import SCRATCH, Project, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMPILER = "/opt/env/bin/tsc"
_TYPES = "/opt/env/lib/node_modules/@types"
ESSENTIALS = "/opt/env/share/typescript/essentials.d.ts"
_COMMON = "/opt/env/share/typescript/node/index.d.ts"
# The check is over before there is much garbage; the collector starts only for large programs.
_ENVIRONMENT = {"GOGC": "off", "GOMEMLIMIT": "160MiB"}

# Options for a program without tsconfig.json: the compiler's own defaults, which are strict, and what this runner
# allows in addition.
_DEFAULTS = {
    "target": "es2022",
    "lib": ["es2025", "esnext.array", "esnext.disposable"],  # no Temporal: it is large, and Node does not have it yet
    "module": "preserve",  # both kinds of imports, as the bundler accepts them
    "moduleResolution": "bundler",
    "moduleDetection": "force",
    "strict": True,
    "jsx": "preserve",
}
_ALWAYS = {"noEmit": True, "skipLibCheck": True, "allowImportingTsExtensions": True, "resolveJsonModule": True}

# Options that the compiler no longer has, or that a check does not need; they are dropped.
_DROPPED = (
    "alwaysStrict allowSyntheticDefaultImports baseUrl charset composite declaration declarationMap downlevelIteration "
    "emitDeclarationOnly esModuleInterop ignoreDeprecations importsNotUsedAsValues incremental isolatedDeclarations "
    "keyofStringsOnly noImplicitUseStrict noStrictGenericChecks out outFile preserveValueImports "
    "suppressExcessPropertyErrors suppressImplicitAnyIndexErrors tsBuildInfoFile"
)
_OLD_TARGETS = ("es3", "es5")
_OLD_MODULES = ("amd", "umd", "system", "none")
_OLD_RESOLUTIONS = ("node", "node10", "classic")

# Modules and globals that only the whole of @types/node declares, and packages of the environment whose declarations
# refer to the whole.
_RARE = (
    "cluster dgram domain http2 inspector punycode repl sea sqlite test trace_events v8 wasi "
    "fetch BodyInit CloseEvent CloseEventInit EventSource EventSourceInit FormData Headers HeadersInit MessageEvent "
    "MessageEventInit Navigator Request RequestInfo RequestInit Response ResponseInit Storage WebSocket WebSocketInit "
    "localStorage navigator sessionStorage "
    "axios cheerio express papaparse ws"
)
# Names that the smaller copy declares, and the essentials do not.
_OF_NODE = (
    "import require module exports process Buffer NodeJS __dirname __filename gc AbortController AbortSignal "
    "AddEventListenerOptions AllowSharedBuffer Architecture ArrayBufferView Blob BroadcastChannel BufferConstructor "
    "BufferEncoding ByteLengthQueuingStrategy CloseEvent CompressionStream ConsoleConstructor "
    "ConsoleConstructorOptions CountQueuingStrategy Crypto CryptoKey CustomEvent CustomEventInit DOMException "
    "DecompressionStream Event EventEmitter EventInit EventListener EventListenerObject EventListenerOptions "
    "EventSource EventTarget File FormData Headers ImportMeta MessageChannel MessageEvent MessagePort Navigator "
    "NodeModule NodeRequire NonSharedBuffer Performance PerformanceEntry PerformanceMark PerformanceMeasure "
    "PerformanceObserver PerformanceObserverEntryList PerformanceResourceTiming QueuingStrategy "
    "ReadableByteStreamController ReadableStream ReadableStreamBYOBReader ReadableStreamBYOBRequest "
    "ReadableStreamDefaultController ReadableStreamDefaultReader ReadableWritablePair Request RequestInit "
    "RequireResolve Response ResponseInit Storage SubtleCrypto TextDecoder TextDecoderStream TextEncoder "
    "TextEncoderStream TransformStream TransformStreamDefaultController URL URLPattern URLSearchParams WebAssembly "
    "WebSocket WritableStream WritableStreamDefaultController WritableStreamDefaultWriter atob btoa "
    "captureStackTrace crypto fetch localStorage navigator performance prepareStackTrace profile profileEnd "
    "sessionStorage stackTraceLimit timeStamp "
)


def declarations(source: str) -> str:
    """Return the smallest file that declares every name of Node that a source can use; empty if only the whole does."""
    words = set(re.findall(r"[A-Za-z_$][\w$]*", source))
    if not words.isdisjoint(_RARE.split()) or "///" in source:
        return ""
    return ESSENTIALS if words.isdisjoint(_OF_NODE.split()) else _COMMON


# In a program without configuration, missing types are no mistake: "implicitly has an 'any' type" is a warning.  The
# compiler exits with an error all the same, so its other messages decide whether the run is blocked.  (Without
# `noImplicitAny` it would take the elements of `let list = []` for `never`.)
IMPLICIT = re.compile(r"TS70(?!2[789]|30)\d\d")
_JUDGED = r"""output=$("$@") && exit
printf '%s\n' "$output"
! printf '%s\n' "$output" | grep -Eq 'error TS(70(2[789]|30)|7[1-9]|[^7])'"""


def check(project: Project, legacy_decorators: bool) -> tuple[Step, tuple[tuple[str, str], ...]]:
    """Return the step that checks a project, and the file that it needs."""
    threads = ("--singleThreaded",) if project.cpu < 2 else ()
    options: dict[str, Any] = {**_DEFAULTS, **_ALWAYS}
    if legacy_decorators:
        options["experimentalDecorators"] = True
    if not project.has("tsconfig.json"):
        others = [name for name in project.files if name.endswith((".ts", ".mts", ".cts", ".tsx", ".json"))]
        files = [project.entry, *_ambient(project)]
        small = declarations(project.text) if len(others) <= 1 and project.text is not None else ""
        if small:
            files.append(small)
        else:
            options.update(types=["node"], typeRoots=_type_roots(project))
        argv = (COMPILER, "--ignoreConfig", "--pretty", "false", *threads, *_as_arguments(options), *files)
        if project.check == "block":
            argv = ("/bin/sh", "-c", _JUDGED, "check", *argv)
        return Step("check", argv, project.root, _ENVIRONMENT), ()
    path = f"{SCRATCH}/{project.entry.strip('/').replace('/', '-')[-100:]}.tsconfig.json"
    argv = (COMPILER, "--project", path, "--pretty", "false", *threads)
    return Step("check", argv, project.root, _ENVIRONMENT), ((path, dumps(configuration(project))),)


def configuration(project: Project) -> dict[str, Any]:
    """Adapt a project's own tsconfig.json to this compiler, and to the part of the project that is run."""
    own = manifest.read(project.texts.get("tsconfig.json", "")).get("compilerOptions")
    own_options: dict[str, Any] = own if isinstance(own, dict) else {}
    options: dict[str, Any] = {**dict.fromkeys(_DROPPED.split()), **_ALWAYS, "rootDir": "/"}
    if str(own_options.get("target", "")).lower() in _OLD_TARGETS:
        options["target"] = "es2022"
    if str(own_options.get("module", "")).lower() in _OLD_MODULES:
        options["module"] = "esnext"
    if str(own_options.get("moduleResolution", "")).lower() in _OLD_RESOLUTIONS:
        options["moduleResolution"] = "bundler"
    base = own_options.get("baseUrl")
    folder = _join(project.root, base) if isinstance(base, str) else project.root
    paths = own_options.get("paths")
    if isinstance(paths, dict) or isinstance(base, str):
        options["paths"] = {
            str(name): [_join(folder, place) for place in places if isinstance(place, str)]
            for name, places in (paths if isinstance(paths, dict) else {}).items()
            if isinstance(places, list)
        }
        if isinstance(base, str):
            options["paths"].setdefault("*", [f"{folder}/*"])
    if not any(name.startswith("node_modules/@types/") for name in project.files):
        options.update(types=["node"], typeRoots=_type_roots(project))
    return {
        "extends": f"{project.root}/tsconfig.json",
        "compilerOptions": options,
        "files": [project.entry, *_ambient(project)],
        "include": [],
    }


def _ambient(project: Project) -> list[str]:
    """List the declarations that belong to the project without being imported."""
    return sorted(
        f"{project.root}/{name}"
        for name in project.files
        if name.endswith(".d.ts") and not name.startswith("node_modules/") and "/node_modules/" not in name
    )


def _type_roots(project: Project) -> list[str]:
    return [f"{project.root}/node_modules/@types", _TYPES]


def _as_arguments(options: dict[str, Any]) -> list[str]:
    arguments = []
    for name, value in options.items():
        arguments += [f"--{name}", ",".join(value) if isinstance(value, list) else str(value).lower()]
    return arguments


def _join(folder: str, path: str) -> str:
    from posixpath import join, normpath

    return normpath(join(folder, path))
