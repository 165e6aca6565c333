"""`pip install NAME …` and `uv pip install NAME …` inside a sandbox: the packages come from Cloche."""

from __future__ import annotations

import json
import os
import sys
from _socket import AF_UNIX, SOCK_STREAM, socket  # `socket` would take longer to import than to use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ADDRESS = "\0cloche-packages"  # see agent/package_requests.py
REAL = "/opt/env/bin"
FLAGS = {
    *("-q", "-qq", "--quiet", "-v", "--verbose", "-U", "--upgrade", "--user", "--system", "-n", "-y", "--no-cache"),
    *("--no-cache-dir", "--no-input", "--no-color", "--no-progress", "--prefer-binary", "--break-system-packages"),
    *("--disable-pip-version-check", "--no-python-version-warning", "--no-warn-script-location"),
}
VALUES = {
    *("--progress-bar", "--root-user-action", "--timeout", "--default-timeout", "--retries", "--only-binary"),
    *("--upgrade-strategy", "--color", "--python", "-p"),
}
QUIET = {"-q", "-qq", "--quiet"}
FILES = ("-r", "--requirement")


def main() -> int:
    """Install by Cloche if these arguments allow it; otherwise become the real program."""
    tool, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
    words = 2 if tool == "uv" else 1
    is_install = arguments[:words] == (["pip", "install"] if tool == "uv" else ["install"])
    wanted = named(arguments[words:]) if is_install and not reaches_an_index() else None
    if not wanted:
        real = f"{REAL}/{tool}"
        try:
            os.execv(real, [real, *arguments])
        except OSError as problem:
            return fail(f"{tool}: {problem.strerror}")
    upgrade = not {"-U", "--upgrade"}.isdisjoint(arguments)
    answer = ask({"ecosystem": "python", "requirements": wanted, "upgrade": upgrade})
    if answer is None:
        return fail("ERROR: Cloche cannot install packages in this sandbox")
    sys.stderr.write(str(answer.get("err", "")))
    if QUIET.isdisjoint(arguments):
        show(answer)
    return int(answer.get("exit", 1))


def reaches_an_index() -> bool:
    """Say whether the network policy, or the caller, names an index that exists.

    A build of a template has its packages from Cloche anyway: sandboxes then share them, and start faster.
    """
    if os.environ.get("PACKAGES_AS_LAYERS"):
        return False
    return ".invalid" not in os.environ.get("PIP_INDEX_URL", "")


def named(arguments: list[str]) -> list[str]:
    """Return the packages that are named; none if only the real program understands these arguments."""
    found: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if option in FILES:
            value = value if equals else rest.pop(0) if rest else ""
            listed = requirements_in(value)
            if not listed:
                return []
            found += listed
        elif word in FLAGS:
            continue
        elif option in VALUES:
            if not equals and rest:
                rest.pop(0)
        elif word.startswith("-") or is_a_place(word):
            return []
        else:
            found.append(word)
    return found


def requirements_in(path: str) -> list[str]:
    """Return the lines of a requirements file; none if it has more than names."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read().replace("\\\n", " ")
    except (OSError, ValueError):
        return []
    lines = [line.split(" #")[0].strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    return [] if any(line.startswith("-") or is_a_place(line) for line in lines) else lines


def is_a_place(word: str) -> bool:
    """Say whether this is a file, a folder or an address instead of a name."""
    name = word.partition(";")[0]
    return "@" in name or "/" in name or name.startswith(".") or name.endswith((".whl", ".tar.gz", ".zip"))


def ask(request: dict[str, object]) -> dict[str, Any] | None:
    """Send a request to Cloche, and wait for the answer; none if there is nobody to answer."""
    connection = socket(AF_UNIX, SOCK_STREAM)
    data = b""
    try:
        connection.connect(ADDRESS)
        connection.sendall(json.dumps(request).encode() + b"\n")
        while piece := connection.recv(1 << 16):
            data += piece
    except OSError:
        return None
    finally:
        connection.close()
    answer: dict[str, Any] | None = json.loads(data) if data else None
    return answer


def show(answer: dict[str, Any]) -> None:
    """Print what has been installed, as pip does."""
    for name, version in answer.get("satisfied") or ():
        print(f"Requirement already satisfied: {name} ({version})")
    installed = [f"{name}-{version}" for name, version in answer.get("installed") or ()]
    if installed:
        print("Successfully installed", " ".join(installed))
    loaded = answer.get("restart") or ()
    if loaded:
        print(f"Note: another version is loaded already. Restart the session to use the new {', '.join(loaded)}.")


def fail(message: str) -> int:
    """Print an error; returns the exit code."""
    print(message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
