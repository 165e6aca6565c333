"""Has Maven find out which files a project needs; a program that the broker runs in a sandbox.

Standard input is JSON: {"files": {path: text}, "folder", "settings", "is_plain"}; the last says that the models name
only the plugins of each build.  Maven sees only the models.  The goals that run are those that list and explain, so
that nothing is compiled and no annotation processor runs; the plugin for tests also looks at one empty class of ours,
since only then it chooses its provider.  Standard output is one line of JSON, with paths in Maven's repository:
{"files": [[path, sha256, size]], "classpath": [path]}, or {"failed": text}.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator

ROOT, REPOSITORY, SETTINGS = "/sandbox/project", "/tmp/repository", "/tmp/settings.xml"
LISTED = (".pom", ".jar", ".war", ".zip", ".xml", ".json", ".exe", ".tar.gz", ".aar", ".module", ".asc")
CLASSPATH = "target/cloche-classpath"
GOALS = ("clean:help", "resources:help", "compiler:help", "jar:help", "install:help")
ADVICE = ("To see the full", "Re-run Maven", "For more information")
TEST = "surefire:test"


def main() -> None:
    """Carry out what standard input asks for."""
    order = json.load(sys.stdin)
    for path, text in order["files"].items():
        write(f"{ROOT}/{path}", text)
    write(SETTINGS, order["settings"])
    folder = os.path.normpath(f"{ROOT}/{order['folder']}")
    write("/tmp/StubTest.java", "class StubTest {}\n")
    subprocess.run(["javac", "-proc:none", "-d", f"{folder}/target/test-classes", "/tmp/StubTest.java"])
    others = [] if order["is_plain"] else ["dependency:go-offline"]  # which finds the files of all plugins
    problem = maven(folder, *GOALS, *others)
    maven(folder, TEST)  # it may fail: all that counts is that it has chosen its provider
    files = sorted(listed())  # without those of the goal that now follows
    problem = problem or maven(folder, "dependency:build-classpath", f"-Dmdep.outputFile={CLASSPATH}")
    if problem:
        print(json.dumps({"failed": problem[-4000:]}))
        return
    text = read(f"{folder}/{CLASSPATH}")
    places = [each.removeprefix(f"{REPOSITORY}/") for each in text.strip().split(":") if each.startswith(REPOSITORY)]
    if not {path for path, _, _ in files}.issuperset(places):
        files = sorted(listed())
    print(json.dumps({"files": files, "classpath": places}))


def maven(folder: str, *words: str) -> str:
    """Run Maven; return what it says about a failure."""
    command = ["mvn", "-B", "-q", "-s", SETTINGS, f"-Dmaven.repo.local={REPOSITORY}", "-DfailIfNoTests=false", *words]
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    lines = [line.rpartition("[ERROR]")[2].strip() for line in done.stdout.splitlines() if "[ERROR]" in line]
    lines = [line for line in lines if line and not line.startswith(ADVICE)]
    return "" if not done.returncode else "\n".join(lines) or done.stdout or "mvn failed"


def listed() -> Iterator:  # type: ignore[type-arg]  # this runs without Cloche's types
    """All files that Maven has taken from its repository."""
    for place, _, names in os.walk(REPOSITORY):
        for name in names:
            path = f"{place}/{name}"
            if name.endswith(LISTED) and not name.startswith(("maven-metadata", "_remote")) and os.path.isfile(path):
                with open(path, "rb") as file:
                    data = file.read()
                yield path.removeprefix(f"{REPOSITORY}/"), hashlib.sha256(data).hexdigest(), len(data)


def write(path: str, text: str) -> None:
    """Write a file."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def read(path: str) -> str:
    """Read a file; empty if it is not there."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, KeyError, TypeError) as problem:
        print(json.dumps({"failed": str(problem)[:4000]}))
