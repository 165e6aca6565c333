"""Java, compiled by our own builder (builder/), which runs the JDK's compiler in a JVM that starts fast."""

from __future__ import annotations

import os

from cloche.languages.diagnostics import MAX_DIAGNOSTICS, number, shown_name
from cloche.languages.language import SCRATCH, WITH_DEPENDENCIES, Failure, Language, Plan, Preparation, Project, Step
from cloche.languages.toolchain import FoundTools, Toolchain
from cloche.model.result import Diagnostic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_BUILDER = os.path.join(_FOLDER, "builder")
_KERNEL = os.path.join(os.path.dirname(os.path.dirname(_FOLDER)), "kernels", "scripts", "java", "Kernel.java")
_INTERNALS = tuple(f"jdk.compiler/com.sun.tools.javac.{part}" for part in ("api", "parser", "tree", "util"))
_EXPORTS = tuple(word for name in _INTERNALS for word in ("--add-exports", f"{name}=ALL-UNNAMED"))
# Class archives are mapped at the address that they were made for: relocating them would take as long as the rest.
_QUICK = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0", "-XX:-UsePerfData", "-Xlog:disable")
_ROOM = 64 << 20  # bytes that a JVM needs outside of its heap, at least
_SMALL = 256 << 20  # bytes of memory below which the serial collector is better

_ERROR = (
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+): (?P<severity>error|warning): (?P<message>.*)$"
    r"(?:\n.*\n(?P<caret>[ \t]*)\^$)?(?P<details>(?:\n  .*$)*)"
)
_UNCAUGHT = r'^Exception in thread "main" (?P<name>[\w.$]+)(?:: (?P<message>(?:.|\n(?!\tat |Caused by: |\t\.\.\. ))*))?'
_NO_THREAD = "unable to create native thread"


def plan(project: Project, found: FoundTools) -> Plan:
    """Compile the program and start the class that the builder found."""
    scratch = SCRATCH + project.entry  # a folder of its own, because two programs may be built at the same time
    builder, before, files = _builder(found)
    words = (project.root, project.entry, scratch, *(("alone",) if project.snippet else ()))
    # The compiler's heap may use all memory: if that is not enough, the wall ends the compiler and reports why.
    compiler = (*_machine(found, project, project.memory, 2), "-XX:TieredStopAtLevel=1", *builder, *words)
    if _needs_jars(project.texts.get("pom.xml", "")) and not any(name.endswith(".jar") for name in project.files):
        compiler = (*WITH_DEPENDENCIES, "maven", project.root, *compiler)
    build = Step("compile", compiler, cwd=found.prepared or scratch)
    archive = () if found.prepared is None else (f"-XX:SharedArchiveFile={found.prepared}/program.jsa",)
    heap = max(16 << 20, (project.memory - _ROOM) // 4 * 3)
    run = (*_machine(found, project, heap, 1), *archive, f"@{scratch}/run")
    return Plan(run=run, before=(*before, build), files=files)


def _needs_jars(model: str) -> bool:
    """Tell whether a pom.xml names dependencies of the program, not only of its tests."""
    from re import DOTALL, findall, search, sub

    own = sub(r"(?s)<!--.*?-->|<(dependencyManagement|build|profiles)>.*?</\1>", "", model)
    found = findall("<dependency>(.*?)</dependency>", own, DOTALL)
    return any(search(r"<scope>\s*(?:test|provided)\s*</scope>", each) is None for each in found)


def _machine(found: FoundTools, project: Project, heap: int, least: int) -> tuple[str, ...]:
    """Return the options of a JVM in a sandbox; it assumes that there are at least this many processors."""
    processors = max(least, -int(-project.cpu // 1))
    return (
        found["java"],
        *_QUICK,
        f"-Xmx{heap >> 10}k",
        f"-XX:ActiveProcessorCount={processors}",
        "-XX:+UseSerialGC" if project.memory < _SMALL else "-XX:+UseG1GC",
        "-XX:ErrorFile=/tmp/hs_err_pid%p.log",
    )


def _builder(found: FoundTools) -> tuple[tuple[str, ...], tuple[Step, ...], tuple[tuple[str, str], ...]]:
    """Return the command of the builder; if it is not prepared, it is compiled first."""
    if found.prepared is not None:
        # Relative paths, because an archive is valid only for the class path that it was made with.
        return ("-XX:SharedArchiveFile=builder.jsa", "-jar", "builder.jar"), (), ()
    folder = f"{SCRATCH}/builder"
    files = tuple((f"{folder}/{name}", text) for name, text in _sources())
    command = (found["javac"], *_EXPORTS, "-d", f"{folder}/classes", *(name for name, _ in _sources()))
    return (*_EXPORTS, "-cp", f"{folder}/classes", "Build"), (Step("prepare", command, cwd=folder),), files


def _sources() -> list[tuple[str, str]]:
    found = []
    for name in sorted(os.listdir(_BUILDER)):
        if name.endswith(".java"):
            with open(os.path.join(_BUILDER, name), encoding="utf-8") as file:
                found.append((name, file.read()))
    return found


def prepare(found: FoundTools, folder: str) -> None:
    """Compile the builder, and make two archives of loaded classes: for the builder, and for programs."""
    import subprocess
    from tempfile import TemporaryDirectory

    java, javac = found.on_host, os.path.join(os.path.dirname(found.on_host), "javac")
    heap = "-Xmx336m"  # the heap in a sandbox with default limits

    def run(*words: str, cwd: str = folder) -> None:
        done = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise subprocess.SubprocessError((done.stderr or done.stdout).strip()[-2000:])

    with TemporaryDirectory() as scratch:
        sources = [_KERNEL, *(os.path.join(_BUILDER, name) for name, _ in _sources())]
        run(javac, "-XDstringConcat=inline", *_EXPORTS, "-d", f"{scratch}/classes", *sources)
        _pack(f"{scratch}/classes", os.path.join(folder, "builder.jar"))
        os.mkdir(f"{scratch}/empty")
        loaded: list[str] = []

        def load(*words: str) -> None:
            """Run a JVM that records which classes it loads."""
            listing = f"{scratch}/loaded"
            run(java, "-Xshare:off", f"-XX:DumpLoadedClassList={listing}", *words)
            with open(listing) as file:
                loaded.extend(_unnumbered(file))

        def dump(archive: str, *words: str, cwd: str = folder) -> None:
            """Make an archive of the recorded classes."""
            with open(f"{scratch}/classes.list", "w") as file:
                file.writelines(dict.fromkeys(loaded))
            listing = f"-XX:SharedClassListFile={scratch}/classes.list"
            run(java, "-Xshare:dump", heap, listing, f"-XX:SharedArchiveFile={archive}", *words, cwd=cwd)

        for name, text in _SAMPLES.items():
            _write(f"{scratch}/{name}.java", text)
            load("-jar", "builder.jar", scratch, f"{scratch}/{name}.java", f"{scratch}/sample", "alone")
        dump("builder.jsa", "-jar", "builder.jar")
        loaded.clear()
        load("-cp", "builder.jar", "Exercise")
        # An archive that contains no classes of a class path is valid for every class path.
        loaded[:] = [line for line in loaded if "Exercise" not in line]
        dump(f"{folder}/program.jsa", cwd=f"{scratch}/empty")
        for number, text in enumerate(_CELLS, 1):
            os.makedirs(f"{scratch}/session/{number}")
            _write(f"{scratch}/session/{number}/code.java", text)
        _write(f"{scratch}/session/commands", "".join(f"{number + 1}\n" for number in range(len(_CELLS))))
        _write(f"{scratch}/session/reports", "")
        loaded.clear()
        load("-cp", "builder.jar", "Kernel", f"{scratch}/session")
        loaded[:] = [line for line in loaded if "Kernel" not in line and "REPL" not in line]
        dump(f"{folder}/kernel.jsa", cwd=f"{scratch}/empty")
    _write(os.path.join(folder, "jdk"), os.path.realpath(found.first))  # the JDK that these archives belong to
    with open(_KERNEL) as file:
        _write(os.path.join(folder, "Kernel.java"), file.read())  # and the kernel


def _unnumbered(listing: Iterable[str]) -> Iterator[str]:
    """Remove the class numbers that JVMs since 21 write, which would prevent joining two lists.

    Only classes of custom loaders need the numbers, and those could not be found again anyway.
    """
    return (line.partition(" id: ")[0].rstrip() + "\n" for line in listing if " source: " not in line)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _pack(classes: str, jar: str) -> None:
    from zipfile import ZIP_STORED, ZipFile

    exports = " ".join(_INTERNALS)
    lines = f"Manifest-Version: 1.0\nMain-Class: Build\nAdd-Exports: {exports}"
    with ZipFile(jar, "w", ZIP_STORED) as file:
        file.writestr("META-INF/MANIFEST.MF", "\n".join(_folded(line) for line in lines.split("\n")) + "\n")
        for name in sorted(os.listdir(classes)):
            file.write(os.path.join(classes, name), name)


def _folded(line: str) -> str:
    """Fold a line of a manifest, which may have 72 bytes at most; continuation lines begin with a space."""
    rest = range(72, len(line), 71)
    return "\n ".join([line[:72], *(line[start : start + 71] for start in rest)])


# The compiler runs on these sources, so that it loads the classes that most programs need.
_SAMPLES = {
    "Snippet": """\
record Point(int x, int y) {}
int sum = 0;
static int twice(int n) { return n * 2; }
for (int i = 0; i < 3; i++) { sum += twice(i); }
List<String> names = new ArrayList<>(List.of("a", "b"));
names.stream().map(s -> s + "!").filter(s -> !s.isEmpty()).forEach(System.out::println);
System.out.println(new Point(1, sum) + String.format("%d", names.size()));
switch (sum) { case 6 -> System.out.println("six"); default -> throw new IllegalStateException("no"); }
""",
    "Whole": """\
import java.util.*;

interface Shape { double area(); }

enum Color { RED, GREEN }

public class Whole {
    private final Map<String, List<Integer>> numbers = new HashMap<>();

    <T extends Comparable<T>> T largest(List<T> of) {
        return of.stream().max(Comparator.naturalOrder()).orElseThrow();
    }

    public static void main(String[] args) throws Exception {
        Shape shape = () -> 2.0;
        try (Scanner scanner = new Scanner("1 2")) {
            while (scanner.hasNextInt()) {
                System.out.println(shape.area() * scanner.nextInt() + " " + Color.values().length);
            }
        } catch (RuntimeException problem) {
            problem.printStackTrace();
        }
    }
}
""",
}


_CELLS = (
    "int x = 1;\nString twice(String s) { return s + s; }\nrecord Point(int x, int y) {}\n",
    'System.out.println(twice("a"));\nList.of(1, 2).stream().map(n -> n + x).toList()\n',
    "y\n",
    "Object o = null;\no.toString();\n",
)


def manifest_entries(_manifest: str, text: str) -> list[str]:
    """Find the main class in a pom.xml."""
    from re import search

    main_class = search(r"<(?:mainClass|exec\.mainClass|main\.class|start-class)>\s*([\w.]+)\s*</", text)
    return [f"src/main/java/{main_class[1].replace('.', '/')}.java"] if main_class else []


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Read the compiler's errors; the column is that of the caret below the line."""
    from re import MULTILINE, finditer

    found = []
    for match in finditer(_ERROR, output, MULTILINE):
        details = [" ".join(line.split()) for line in match["details"].splitlines() if line.strip()]
        message = match["message"] + (f" ({', '.join(details)})" if details else "")
        column = len(match["caret"]) + 1 if match["caret"] is not None else 0
        place = shown_name(match["file"], project), number(match["line"]), column
        found.append(Diagnostic(*place, message[:4000], match["severity"]))
        if len(found) >= MAX_DIAGNOSTICS:
            break
    return tuple(found)


def explain(stderr: str) -> Failure | None:
    """Find the uncaught exception of the main thread; those of other threads do not end a program."""
    from re import MULTILINE, search

    raised = search(_UNCAUGHT, stderr, MULTILINE)
    if raised is None:
        return None
    message = (raised["message"] or "").strip()
    name = _NO_THREAD if _NO_THREAD in message else raised["name"]  # not a lack of memory, whatever the class is called
    return Failure("runtime", name, message, stderr[raised.start() :])


LANGUAGE = Language(
    name="java",
    title="Java",
    main="Main.java",
    extensions=(".java",),
    aliases=("jdk", "openjdk", "jshell"),
    toolchain=Toolchain(
        programs=("java", "javac"),
        folders=(
            "$JAVA_HOME/bin",
            "~/.sdkman/candidates/java/current/bin",
            "~/.sdkman/candidates/java/*/bin",
            "/usr/lib/jvm/*/bin",
            "~/.jdks/*/bin",
            "~/.jenv/versions/*/bin",
            "$ASDF_DATA_DIR/installs/java/*/bin",
            "~/.asdf/installs/java/*/bin",
            "~/.local/share/mise/installs/java/*/bin",
            "/opt/java/openjdk/bin",
            "/opt/jdk*/bin",
            "/home/linuxbrew/.linuxbrew/opt/openjdk/bin",
        ),
        version=("-version",),
        pattern=r'version "(\d+(?:\.\d+)*)',
        least="17",
        apt=("default-jdk-headless",),
        otherwise="Install a JDK 17 or later: Temurin, Zulu, Corretto or your distribution's.",
    ),
    plan=plan,
    entries=("App.java", "Application.java", "Program.java", "Solution.java"),
    manifests=("pom.xml",),
    reads=("pom.xml",),
    manifest_entries=manifest_entries,
    diagnose=diagnose,
    explain=explain,
    kernel={"fork": "java", "needs": "javac", "ends_input": True},
    preparation=Preparation("the compiler and the classes that programs use, loaded (60 MB)", prepare, version=8),
    hello="""public class Main {
    public static void main(String[] args) {
        System.out.println("Hello from Java");
    }
}
""",
)
