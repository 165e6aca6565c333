"""T10: nothing that one caller has sent is found in the memory of another caller's sandbox.

Every sandbox is a fork of a nursery.  So the first tenant sends a mark wherever a request can contain one, and the
second tenant searches all of its own memory for it, freed memory included.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cloche
from cloche import settings
from cloche.blocking.walls.jail.wall import Jail
from cloche.model.files import Mount
from cloche.model.limits import Limits
from cloche.model.order import Order
from cloche.settings import Settings
from cloche.walls.jail.nursery_client import Nurseries

# The mark comes backwards, so that the search does not find itself.
SEARCH = """
import os, re
mark = "{krowkcab}"[::-1].encode()
found = set()
memory = os.open("/proc/self/mem", os.O_RDONLY)
for line in open("/proc/self/maps"):
    span, rights, *_ = line.split(None, 5)
    start, end = (int(number, 16) for number in span.split("-"))
    if not rights.startswith("rw"):  # the rest is mapped from files, as they are
        continue
    for at in range(start, end, 1 << 20):
        try:
            page = os.pread(memory, min(end - at, (1 << 20) + 64), at)
        except OSError:
            continue
        if mark in page:
            found.update(re.findall(mark + rb"-[a-z]+", page))
for path in ("/proc/self/environ", "/proc/self/cmdline", "/proc/self/mountinfo", "/proc/mounts"):
    found.update(re.findall(mark + rb"-[a-z]+", open(path, "rb").read()))
print(*sorted(name.decode() for name in found))
"""


def searching(mark: str) -> str:
    return SEARCH.replace("{krowkcab}", mark[::-1])


@pytest.fixture(scope="module")
def shared() -> Iterator[Jail]:
    """A jail of which both tenants use all nurseries, warm and with sandboxes made ahead."""
    nurseries = Nurseries(Settings(settings.load().environment, pool=1))
    nurseries.warm_up()
    yield Jail(nurseries)
    nurseries.close()


def leave_marks(wall: Jail, mark: str, folder: Path) -> None:
    """Send the mark wherever a request can contain one, by each kind of nursery, and with failures."""
    given = folder / f"{mark}-mount"
    given.mkdir(exist_ok=True)
    mounts = {str(given): f"/sandbox/data/{mark}-target"}
    marked: dict[str, Any] = {"env": {f"{mark}-name".replace("-", "_"): f"{mark}-env"}, "args": [f"{mark}-argument"]}
    files = {f"{mark}-file.txt": f"{mark}-contents".encode()}
    for code in (f"print('{mark}-code')", f"import pandas\nprint('{mark}-code')"):
        result = cloche.run(code, mounts=mounts, files=files, stdin=f"{mark}-stdin", wall=wall, **marked)
        assert result.stdout == f"{mark}-code\n", result
        cloche.run(code, mounts=mounts, wall=wall)
    for language in ("bash", "javascript"):
        cloche.run(f"// {mark}-code\n", language=language, wall=wall, mounts=mounts)
        entry = f"{mark}-entry." + {"bash": "sh", "javascript": "js"}[language]
        cloche.run(files={entry: b""}, entry=entry, language=language, wall=wall)
    with cloche.Sandbox(wall=wall, mounts=mounts, env={"SECRET": f"{mark}-env"}) as box:
        box.run(f"kept = '{mark}-cell'")
        box.restore(box.checkpoint())
        box.files.write(f"{mark}-file", b"x")
        box.commands.run(["echo", f"{mark}-command"])
    # A folder that was replaced since it was checked: the failure is told, too.
    replaced = Mount(str(given), f"/sandbox/data/{mark}-failed", False, (1, 1))
    hold = wall.hold(Order(Limits(), (replaced,), frozenset()))
    hold.ended()
    with pytest.raises(cloche.SandboxFailed, match="checked"):
        hold.usage()
    hold.abandon()


def what_is_found(wall: Jail, mark: str) -> dict[str, str]:
    """What the second tenant finds: in fresh programs, in those of every nursery, and in all kinds of kernels."""
    search = searching(mark)
    found = {}
    for number in range(2):
        found[f"a program, {number}"] = cloche.run(search, wall=wall).stdout
        found[f"a program with pandas, {number}"] = cloche.run(f"import pandas{search}", wall=wall).stdout
    found["a program with other limits"] = cloche.run(search, memory="300M", wall=wall).stdout
    with cloche.Sandbox(wall=wall) as box:
        found["a kernel"] = box.run(search).stdout
        box.restore(box.checkpoint())
        found["a kernel that was restored"] = box.run(search).stdout
        found["another context"] = box.contexts.create().run(search).stdout
        found["a program in a session"] = box.run_program(search).stdout
        box.files.write("search.py", search.encode())
        found["a command"] = box.commands.run(["python3", "search.py"]).stdout
        # The environment and the arguments of commands that were started ahead.
        code = "tr '\\0' '\\n' < /proc/$$/environ; tr '\\0' '\\n' < /proc/$$/cmdline"
        found["bash"] = "".join(line for line in cloche.run(code, language="bash", wall=wall).stdout if mark in line)
    return {where: text.strip() for where, text in found.items()}


def test_no_mark_of_one_tenant_is_in_the_memory_of_the_next(shared: Jail, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    mark = "mark" + secrets.token_hex(8)
    leave_marks(shared, mark, tmp_path)
    found = what_is_found(shared, mark)
    assert found == dict.fromkeys(found, "")


def test_a_mark_in_the_nursery_would_be_found() -> None:
    """The proof: a mark that the nursery is started with is in every fork of it."""
    mark = "mark" + secrets.token_hex(8)
    nurseries = Nurseries(Settings(settings.load().environment, pool=0, warm=False), frozenset({f"{mark}-planted"}))
    try:
        assert cloche.run(searching(mark), wall=Jail(nurseries)).stdout == f"{mark}-planted\n"
    finally:
        nurseries.close()
