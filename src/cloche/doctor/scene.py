"""The bait for an attacker that gets out: files, sockets and memory on the host, a neighbour, and a world outside."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import socket
import tempfile

from cloche.doctor.outside import Outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from cloche.blocking.sandbox.sandbox import Sandbox
    from cloche.blocking.walls.wall import Wall

MARK = "cloche-canary-"  # a program searches for this and 32 digits, so it never contains a canary itself
_IPC_CREAT, _IPC_RMID = 0o1000, 0

_NEIGHBOUR = """
import os, socket, sys, time
mark, port_file = sys.argv[1:]
for folder in ("/tmp", "/dev/shm", "/sandbox"):
    with open(f"{folder}/{mark}", "w") as file:
        file.write(mark)
server = socket.create_server(("127.0.0.1", 0))
local = socket.socket(socket.AF_UNIX)
local.bind("\\0" + mark)
local.listen()
with open(port_file, "w") as file:
    file.write(str(server.getsockname()[1]))
print("ready", flush=True)
time.sleep(600)
"""


class Scene:
    """Bait: a canary in this process's memory, environment, files and shared memory; sockets; a neighbour.

    Sockets listen on the loopback address and in the abstract namespace only.
    """

    def __init__(self, wall: Wall) -> None:
        self.wall = wall
        self.canary = MARK + secrets.token_hex(16)
        self._variable = "CLOCHE_PROBE_CANARY"
        self._sockets: list[socket.socket] = []
        self._shared_memory = -1
        self.outside = Outside()

    def __enter__(self) -> Self:
        try:
            self._set_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.environ.pop(self._variable, None)
        for listening in self._sockets:
            listening.close()
        for path in (getattr(self, "folder", ""), getattr(self, "shared_file", "")):
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            elif path and os.path.exists(path):
                os.unlink(path)
        if self._shared_memory >= 0:
            ctypes.CDLL(None).shmctl(self._shared_memory, _IPC_RMID, None)
        box: Sandbox | None = getattr(self, "neighbour", None)
        if box is not None:
            box.close()
        self.outside.__exit__()

    def _set_up(self) -> None:
        self.outside.__enter__()
        os.environ[self._variable] = self.canary  # set before the nursery starts
        self.folder = tempfile.mkdtemp(prefix="cloche-probe-")
        os.chmod(self.folder, 0o755)  # readable for the attacker, which is another user: only a wall may stop it
        self.secret_file = os.path.join(self.folder, "secret")
        with open(self.secret_file, "w") as file:
            file.write(self.canary)
        self.shared_file = f"/dev/shm/{os.path.basename(self.folder)}"
        with open(self.shared_file, "w") as file:
            file.write(self.canary)
        self.shared_key = secrets.randbelow(1 << 30) + 1
        self._shared_memory = ctypes.CDLL(None).shmget(self.shared_key, 4096, _IPC_CREAT | 0o666)
        self.port = self._listen(socket.AF_INET, ("127.0.0.1", 0)).getsockname()[1]
        self.abstract = os.path.basename(self.folder)
        self._listen(socket.AF_UNIX, f"\0{self.abstract}")
        self.socket_path = os.path.join(self.folder, "socket")
        os.chmod(self._listen(socket.AF_UNIX, self.socket_path).getsockname(), 0o777)
        self._settle_neighbour()

    def _listen(self, family: int, address: Any) -> socket.socket:
        listening = socket.socket(family)
        self._sockets.append(listening)
        listening.bind(address)
        listening.listen()
        return listening

    def _settle_neighbour(self) -> None:
        from cloche.blocking.sandbox.sandbox import Sandbox

        self.neighbour_mark = f"neighbour-{secrets.token_hex(8)}"
        self.neighbour = Sandbox(wall=self.wall, timeout=None)
        self.neighbour.open()
        process = self.neighbour.start_program(_NEIGHBOUR, args=[self.neighbour_mark, "/sandbox/port"], timeout=900)
        for event in process:
            if getattr(event, "data", b"").startswith(b"ready"):
                break
        self.neighbour_port = int(self.neighbour.files.read_text("/sandbox/port"))

    def given(self) -> dict[str, Any]:
        """Return the facts that an attacker gets, so that it need not guess."""
        import sys

        import cloche
        from cloche import environment
        from cloche.walls.jail import syscalls

        return {
            "calls": syscalls.numbers(os.uname().machine),
            "mark": MARK,
            "secret_file": self.secret_file,
            "shared_file": self.shared_file,
            "shared_key": self.shared_key,
            "socket_path": self.socket_path,
            "port": self.port,
            "abstract": self.abstract,
            "pid": os.getpid(),
            "since": _start_time(),
            # A sandbox has folders of the same names below /usr and /opt.
            "paths": [
                path
                for path in (os.path.dirname(cloche.__file__), sys.prefix, environment.location())
                if not path.startswith(("/usr", "/opt"))
            ],
            "home": os.path.expanduser("~"),
            "neighbour_mark": self.neighbour_mark,
            "neighbour_port": self.neighbour_port,
            "outside": self.outside.given(),
        }


def _start_time() -> int:
    """Return when this process started, in the kernel's ticks: no other process has the same pid and start time."""
    with open("/proc/self/stat") as file:
        return int(file.read().rpartition(")")[2].split()[19])
