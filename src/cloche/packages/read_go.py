"""Has Go choose or fetch modules; a program of the standard library alone, which the broker runs in a sandbox.

Standard input is JSON.  With {"files": {path: text}, "folder", "command", "imports"}, Go completes the manifests of a
project, whose code is not there.  With {"modules": ["path@version"], "descriptions": […]}, it fetches these into
GOMODCACHE.  Standard output is one line of JSON: {"files", "modules": [{"path", "version", "sum", "mod"}], "output"},
or {"failed": text}.
"""

import json
import os
import subprocess
import sys

ROOT = "/sandbox/project"
_AT_ONCE = 200  # arguments of one command


def main() -> None:
    """Carry out what standard input asks for."""
    order = json.load(sys.stdin)
    if "modules" in order:
        os.makedirs(ROOT)
        found = [each for some in parts(order["modules"]) for each in downloaded(ROOT, some)]
        for some in parts(order["descriptions"]):
            go(ROOT, "list", "-m", "-json", *some)
        print(json.dumps({"modules": found}))
    else:
        print(json.dumps(completed(order)))


def completed(order: dict) -> dict:  # type: ignore[type-arg]  # this runs without Cloche's types
    """Have Go complete the manifests, and say which modules a build needs."""
    files = order["files"]
    for path, text in files.items():
        write(path, text)
    folder = os.path.normpath(f"{ROOT}/{order['folder']}")
    if not any(path.endswith("go.work") for path in files):
        os.environ["GOFLAGS"] += " -mod=mod"
    output = ""
    if order["command"][:2] == ["mod", "tidy"]:
        lines = "".join(f"import _ {json.dumps(each)}\n" for each in order["imports"])
        write(os.path.join(order["folder"], "imports.go"), f"package imports\n{lines}")
    if order["command"]:
        output = go(folder, *order["command"])
    modules = downloaded(folder, [])
    sums = os.path.join(order["folder"], "go.sum")
    known = read(sums).splitlines()
    wanted = [f"{each['path']} {each['version']} {each['sum']}" for each in modules]
    wanted += [f"{each['path']} {each['version']}/go.mod {each['mod']}" for each in modules]
    work = os.path.dirname(next((path for path in files if path.endswith("go.work")), ""))
    others = [line for path in files if path.endswith(".sum") for line in read(path).splitlines()]
    others += read(os.path.join(work, "go.work.sum")).splitlines()
    missing = [line for line in wanted if line not in known and line not in others]
    if missing:
        write(sums, "".join(f"{line}\n" for line in sorted([*known, *missing])))
    paths = [*files, sums]
    texts = {path: read(path) for path in dict.fromkeys(paths) if os.path.exists(f"{ROOT}/{path}")}
    return {"files": texts, "modules": modules, "output": output}


def downloaded(folder: str, modules: list) -> list:  # type: ignore[type-arg]
    """Download modules, or all that the project needs; return their names and checksums."""
    text, found, decoder = go(folder, "mod", "download", "-json", *modules, only_output=True), [], json.JSONDecoder()
    while text := text.lstrip():
        each, end = decoder.raw_decode(text)
        text = text[end:]
        if each.get("Error"):
            raise ChildProcessError(each["Error"])
        found.append({"path": each["Path"], "version": each["Version"], "sum": each["Sum"], "mod": each["GoModSum"]})
    return found


def go(folder: str, *words: str, only_output: bool = False) -> str:
    """Run Go; return what it prints."""
    done = subprocess.run(
        ["go", *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )
    if done.returncode and not (only_output and '"Error"' in done.stdout):
        raise ChildProcessError(done.stderr.strip() or f"go ended with the exit code {done.returncode}")
    return done.stdout if only_output else done.stdout + done.stderr


def parts(words: list) -> list:  # type: ignore[type-arg]
    """Cut a list into pieces that fit into one command."""
    return [words[start : start + _AT_ONCE] for start in range(0, len(words), _AT_ONCE)]


def write(path: str, text: str) -> None:
    """Write a file of the project."""
    os.makedirs(os.path.dirname(f"{ROOT}/{path}"), exist_ok=True)
    with open(f"{ROOT}/{path}", "w", encoding="utf-8", newline="") as file:
        file.write(text)


def read(path: str) -> str:
    """Read a file of the project; empty if it is not there."""
    try:
        with open(f"{ROOT}/{path}", encoding="utf-8", newline="") as file:
            return file.read()
    except OSError:
        return ""


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, KeyError, TypeError) as problem:
        print(json.dumps({"failed": str(problem)[:4000]}))
