"""Another tenant: a neighbour sandbox with files, a port, sockets, processes, and kernel quotas of its own."""

from __future__ import annotations

from cloche.doctor.probe import Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.sandbox.sandbox import Sandbox
    from cloche.doctor.scene import Scene

_BELONGINGS = """
mark = GIVEN["neighbour_mark"]
for folder in ("/tmp", "/dev/shm", "/sandbox", "/home/user", "/var/tmp"):
    attempt(f"the neighbour's file in {folder}", read, f"{folder}/{mark}")

def connect(family, address):
    with socket.socket(family) as client:
        client.settimeout(2)
        client.connect(address)

attempt("the neighbour's port", connect, socket.AF_INET, ("127.0.0.1", GIVEN["neighbour_port"]))
attempt("the neighbour's abstract socket", connect, socket.AF_UNIX, "\\0" + mark)
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    try:
        words = read(f"/proc/{pid}/cmdline")
    except OSError:
        continue
    if mark.encode() in words and int(pid) != os.getpid():
        tell("the neighbour's process", "gained", pid)
"""

# The attacker keeps its objects open until the prober has checked the neighbour, because a quota counts open objects.
_QUOTAS = """
held = []
for _ in range(3000):
    fd = libc.inotify_init1(0)
    if fd < 0:
        break
    held.append(fd)
timers = []
try:
    while len(timers) < 20_000:
        timers.append(call("timer_create", 0, None, ctypes.byref(ctypes.c_int())))
except OSError:
    pass
tell(f"took {len(held)} inotify instances and {len(timers)} timers", "refused")
print(json.dumps("done"), flush=True)
time.sleep(1.5)
"""

_NEEDS = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
wanted = {"an inotify instance": libc.inotify_init1(0),
          "a timer": libc.timer_create(0, None, ctypes.byref(ctypes.c_void_p()))}
print(";".join(f"{what} (errno {ctypes.get_errno()})" for what, got in wanted.items() if got < 0))
"""


def _neighbour_still_gets(scene: Scene, box: Sandbox | None) -> list[str]:
    """Check the neighbour while the attacker keeps its share open."""
    del box
    denied = scene.neighbour.run_program(_NEEDS, timeout=10).stdout.strip()
    return [f"the neighbour is denied {denied}"] if denied else []


PROBES = (
    Probe("T12", "A neighbour's files, ports, sockets and processes are out of reach", _BELONGINGS),
    Probe("T12", "A neighbour's kernel quotas cannot be used up", _QUOTAS, look=_neighbour_still_gets, when="during"),
)
