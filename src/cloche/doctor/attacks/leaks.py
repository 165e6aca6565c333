"""Leaks into a sandbox: the network, descriptors, memory and environment of the process that started it."""

from __future__ import annotations

from cloche.doctor.probe import HELD, NOT_HELD, NOT_TRIED, Probe, ProbeRun, judge_attempts
from cloche.doctor.scene import MARK

_LOOPBACK = """
def connect(family, address):
    with socket.socket(family) as client:
        client.settimeout(2)
        client.connect(address)

attempt("a service on the host's loopback", connect, socket.AF_INET, ("127.0.0.1", GIVEN["port"]))
attempt("the same by another name", connect, socket.AF_INET, ("127.1.2.3", GIVEN["port"]))
attempt("the same over IPv6", connect, socket.AF_INET6, ("::ffff:127.0.0.1", GIVEN["port"]))
attempt("an abstract Unix socket of the host", connect, socket.AF_UNIX, "\\0" + GIVEN["abstract"])
"""

_ROUTES = """
def route(family, address):
    # Connecting a datagram socket looks for a route and sends nothing.
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.connect((address, 9))
        return client.getsockname()[0]

for what, family, address in (
    ("the internet", socket.AF_INET, "192.0.2.1"), ("the metadata address", socket.AF_INET, "169.254.169.254"),
    ("a private network", socket.AF_INET, "10.0.0.1"), ("another", socket.AF_INET, "192.168.0.1"),
    ("multicast", socket.AF_INET, "224.0.0.1"), ("the internet over IPv6", socket.AF_INET6, "2001:db8::1"),
    ("link-local IPv6", socket.AF_INET6, "fe80::1%lo"),
):
    attempt(f"a way to {what}", route, family, address)
for _, name in socket.if_nameindex():
    tell(f"interface {name}", "refused" if name == "lo" or not interface_up(name) else "gained")
"""

# Kernels make unused tunnel interfaces (tunl0, sit0 …) in every new network namespace: they count only when up.
_INTERFACES = """
import fcntl
def interface_up(name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, 0x8913, struct.pack("16sh14x", name.encode(), 0))
    return bool(struct.unpack("16sh14x", answer)[1] & 1)
"""

_DESCRIPTORS = """
for number in range(0, 4096):
    try:
        kind = os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        continue
    expected = number < 3 and (kind.startswith("pipe:") or kind == "/dev/null")
    tell(f"descriptor {number}", "refused" if expected else "gained", kind)
import subprocess
listed = subprocess.run(["bash", "-c", "ls -l /proc/$$/fd; true"], capture_output=True, text=True).stdout
for line in listed.splitlines()[1:]:
    number, _, kind = line.rpartition(" -> ")
    number = number.split()[-1]
    expected = kind.startswith("pipe:") or kind == "/dev/null"
    tell(f"a child's descriptor {number}", "refused" if expected else "gained", kind)
tell("working directory", "refused" if os.getcwd().startswith("/sandbox") else "gained", os.getcwd())
"""

# The pattern does not match itself, so a canary that is found was there before.
_CANARY = """
import re
pattern = re.compile(GIVEN["mark"].encode() + b"[0-9a-f]{32}")
looked = 0

def look(where, data):
    global looked
    looked += len(data)
    for found in set(pattern.findall(data)):
        tell(where, "gained", found.decode())

for pid in [name for name in os.listdir("/proc") if name.isdigit()] + ["self"]:
    for name in ("environ", "cmdline"):
        try:
            look(f"/proc/{pid}/{name}", read(f"/proc/{pid}/{name}", 1 << 20))
        except OSError:
            pass
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in maps:
        span, rights, *_, = line.split()
        start, end = (int(part, 16) for part in span.split("-"))
        if rights[0] != "r" or "[v" in line:
            continue
        for place in range(start, end, 1 << 24):
            try:
                memory.seek(place)
                look("own memory", memory.read(min(1 << 24, end - place)))
            except (OSError, OverflowError, ValueError):
                pass
for folder in ("/dev/shm", "/tmp", "/sandbox", "/var", "/run"):
    for top, _, names in os.walk(folder):
        for name in names:
            try:
                look(f"{top}/{name}", read(f"{top}/{name}", 1 << 20))
            except OSError:
                pass
attempt_call("shmget", GIVEN["shared_key"], 0, 0, what="shared memory of the host")
tell("bytes searched", "refused", looked)
"""


def _canary_not_found(seen: ProbeRun) -> tuple[str, str]:
    gained = [(where, text) for where, outcome, text in seen.attempts if outcome == "gained"]
    found = sorted({where for where, text in gained if text == seen.scene.canary or not text.startswith(MARK)})
    if found:
        return NOT_HELD, f"What belongs to the process that runs Cloche was found in: {', '.join(found)}."
    searched = next((int(text) for what, _, text in seen.attempts if what == "bytes searched"), 0)
    if not seen.finished:
        return judge_attempts(seen)
    return (HELD, "") if searched > 1 << 20 else (NOT_TRIED, f"Only {searched} bytes could be searched.")


PROBES = (
    Probe("T8", "The host's loopback and abstract sockets are out of reach", _LOOPBACK),
    Probe("T8", "There is no way to any network", _INTERFACES + _ROUTES),
    Probe("T9", "No descriptor leaked in", _DESCRIPTORS),
    Probe("T10", "Nothing of the server's memory or environment is inside", _CANARY, _canary_not_found),
)
