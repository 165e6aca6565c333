"""Has Cargo choose versions; a program of the standard library alone, which the broker runs in a sandbox.

Standard input is JSON: {"files": {path: text}, "folder", "command", "config"}.  Cargo sees the manifests and empty
files in place of the project's code, so that nothing of the project runs.  Standard output is one line of JSON:
{"files": {path: text}, "output": text} with the manifests as Cargo has left them, or {"failed": text}.
"""

import json
import os
import subprocess
import sys
import tomllib

ROOT = "/sandbox/project"
KINDS = {"bin": "src/bin", "example": "examples", "test": "tests", "bench": "benches"}


def main() -> None:
    """Carry out what standard input asks for."""
    order = json.load(sys.stdin)
    for path, text in order["files"].items():
        write(path, text)
    for path, text in order["files"].items():
        if path.endswith("Cargo.toml"):
            make_targets(os.path.dirname(path), tomllib.loads(text))
    os.makedirs(os.environ["CARGO_HOME"], exist_ok=True)
    with open(os.environ["CARGO_HOME"] + "/config.toml", "w", encoding="utf-8") as file:
        file.write(order["config"])
    folder = os.path.normpath(f"{ROOT}/{order['folder']}")
    output = ""
    if order["command"]:
        output = cargo(folder, *order["command"])
    lock = cargo(folder, "locate-project", "--workspace", "--message-format", "plain").strip()
    lock = os.path.dirname(lock.rpartition("\n")[2]) + "/Cargo.lock"
    if os.path.exists(lock):
        cargo(folder, "update", "--workspace", "--quiet")  # adds what is missing, and changes nothing else
    else:
        cargo(folder, "generate-lockfile", "--quiet")
    paths = [*order["files"], os.path.relpath(lock, ROOT)]
    print(json.dumps({"files": {path: read(path) for path in dict.fromkeys(paths)}, "output": output}))


def cargo(folder: str, *words: str) -> str:
    """Run Cargo; return what it prints on both streams."""
    done = subprocess.run(
        ["cargo", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode:
        raise ChildProcessError(done.stderr.strip() or f"cargo ended with the exit code {done.returncode}")
    return done.stdout or done.stderr


def make_targets(folder: str, manifest: dict) -> None:  # type: ignore[type-arg]  # this runs without Cloche's types
    """Make empty files where Cargo wants to see code."""
    package = manifest.get("package")
    if not isinstance(package, dict):
        return
    stubs = ["src/lib.rs", "src/main.rs"]
    build = package.get("build")
    stubs += [build] if isinstance(build, str) else []
    named = [("bin", {"name": package["default-run"]})] if "default-run" in package else []
    library = manifest.get("lib", {})
    named += [("lib", library)]
    named += [(kind, each) for kind in KINDS for each in manifest.get(kind, ())]
    for kind, target in named:
        if "path" in target:
            stubs.append(target["path"])
        elif kind in KINDS and target.get("name") != package.get("name"):
            stubs.append(f"{KINDS[kind]}/{target['name']}.rs")
    for stub in stubs:
        path = os.path.normpath(os.path.join(folder, stub))
        if not path.startswith(("/", "..")) and not os.path.exists(f"{ROOT}/{path}"):
            write(path, "")


def write(path: str, text: str) -> None:
    """Write a file of the project."""
    os.makedirs(os.path.dirname(f"{ROOT}/{path}"), exist_ok=True)
    with open(f"{ROOT}/{path}", "w", encoding="utf-8", newline="") as file:
        file.write(text)


def read(path: str) -> str:
    """Read a file of the project."""
    with open(f"{ROOT}/{path}", encoding="utf-8", newline="") as file:
        return file.read()


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        print(json.dumps({"failed": str(problem)[:4000]}))
