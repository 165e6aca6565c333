"""Files: of the host, in /proc and /sys, over the attacker's own mounts, through devices, and in files handed back."""

from __future__ import annotations

from cloche.doctor.probe import Probe
from cloche.errors import ClocheError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.sandbox.sandbox import Sandbox
    from cloche.doctor.scene import Scene

_HOST_FILES = """
def names_in(folder):
    names = set(os.listdir(folder)) - {"data", "tmp"}  # links that every sandbox has
    if not names:  # the folder is there, and is the sandbox's own
        raise FileNotFoundError(2, "nothing is in it")
    return names

attempt("a file of the host", read, GIVEN["secret_file"])
for path in ("/etc/shadow", "/etc/ssh", "/var/lib", "/var/log", "/boot", "/srv", "/lost+found"):
    attempt(path, os.stat, path)
for path in ("/root", "/mnt", "/var", "/run"):
    attempt(path, names_in, path)
for path in GIVEN["paths"]:
    attempt(path, os.stat, path)
if GIVEN["home"] not in ("/", "/sandbox", "/nonexistent"):
    attempt(GIVEN["home"], names_in, GIVEN["home"])
for name in os.listdir("/home"):
    if name != "user":
        tell(f"/home/{name}", "gained")
for folder in sys.path:
    attempt(f"import cloche from {folder}", os.stat, f"{folder}/cloche")
"""

_HOST_SOCKETS = """
def connect(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)

attempt("a Unix socket of the host", connect, GIVEN["socket_path"])
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock",
             "/run/dbus/system_bus_socket", "/run/systemd/private", "/var/run/postgresql", "/tmp/.X11-unix/X0"):
    attempt(path, os.stat, path)
"""

_OTHER_PROCESSES = """
seen = {int(name) for name in os.listdir("/proc") if name.isdigit()}
mine = {1, os.getpid(), os.getppid()}
for pid in sorted(seen - mine):
    # What else is here must be a child of ours or of the agent, which keeps one in reserve.
    parent = int(read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])
    tell(f"process {pid}", "refused" if parent in mine else "gained", parent)

def since(pid):
    return int(read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[19])

def is_the_prober(pid):
    try:
        return since(pid) == GIVEN["since"]
    except OSError:
        return pid != 1  # some walls cover the agent; the prober has its number where a container runs nothing else

if GIVEN["pid"] in seen and not is_the_prober(GIVEN["pid"]):
    tell("the prober's process", "refused", "another has its number")
else:
    attempt("the prober's process", since, GIVEN["pid"])
    attempt("a signal to the prober", os.kill, GIVEN["pid"], 0)
tell("processes in sight", "refused" if len(seen) < 10 else "gained", len(seen))
attempt("the agent's root", os.listdir, "/proc/1/root/")
attempt("the agent's working directory", os.listdir, "/proc/1/cwd/")
"""

_PROC_AND_SYS = """
def secret(path):
    if os.stat(path).st_rdev == os.stat("/dev/null").st_rdev:
        raise OSError("masked")
    if os.path.isdir(path):
        if not os.listdir(path):
            raise OSError("empty")
    elif not read(path, 64):
        raise OSError("empty")

for name in ("kcore", "kmsg", "keys", "key-users", "timer_list", "cmdline", "kallsyms", "config.gz", "acpi", "scsi",
             "bus", "irq", "fs", "sched_debug", "kpagecount", "vmallocinfo"):
    attempt(f"read /proc/{name}", secret, f"/proc/{name}")
for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
             "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sys/fs/binfmt_misc/register",
             "/proc/sys/net/ipv4/ip_forward", "/proc/sys/user/max_user_namespaces", "/proc/irq/default_smp_affinity"):
    attempt(f"write {path}", write_open, path)
for line in read("/proc/self/mounts", 1 << 20).decode().splitlines():
    device, point, kind, options = line.split()[:4]
    if point == "/proc/sys":
        tell("/proc/sys", "refused" if "ro" in options.split(",") else "gained", "writable mount")
"""

_CONTROL_GROUPS = """
for path in ("/sys/kernel", "/sys/kernel/debug", "/sys/class", "/sys/block", "/sys/firmware", "/dev/cgroup"):
    attempt(path, os.listdir, path)
for name in ("cgroup.procs", "memory/cgroup.procs", "pids/cgroup.procs"):  # some walls show a few limits here
    attempt(f"read {name}", read, f"/sys/fs/cgroup/{name}")
attempt("make a control group", os.mkdir, "/sys/fs/cgroup/attack")
for line in read("/proc/self/cgroup").decode().splitlines():
    path = line.split(":", 2)[2]  # a namespace of its own makes each look like the top of its tree
    tell(f"the name of its control group", "gained" if "cloche-" in path else "refused", path)
for line in read("/proc/self/mounts", 1 << 20).decode().splitlines():
    if line.split()[2] in ("cgroup", "cgroup2", "sysfs", "debugfs", "tracefs", "securityfs", "bpf", "configfs"):
        tell("mount of " + line.split()[2], "gained", line.split()[1])
"""

_MOUNTS = """
here = b"/sandbox/temp"
attempt_call("mount", b"none", here, b"tmpfs", 0, None, what="mount a tmpfs")
attempt_call("mount", b"/", here, None, 4096, None, what="bind /")
attempt_call("mount", b"proc", here, b"proc", 0, None, what="mount a /proc")
attempt_call("mount", b"none", b"/usr", None, 32 | 4096, None, what="remount /usr writable")
attempt_call("mount", b"none", b"/proc/sys", None, 32 | 4096, None, what="remount /proc/sys writable")
attempt_call("umount2", b"/proc/sys", 2)
attempt_call("umount2", b"/sandbox", 2)
attempt_call("pivot_root", b"/sandbox", here)
attempt("chroot", in_child, call, "chroot", b"/sandbox")
attempt_call("fsopen", b"tmpfs", 0)
attempt_call("fspick", -100, b"/", 0)
attempt_call("open_tree", -100, b"/", 1, what="open_tree (clone)")
attempt_call("move_mount", -100, b"/tmp", -100, here, 0)
attempt_call("mount_setattr", -100, b"/usr", 0, struct.pack("QQQQ", 0, 1, 0, 0), 32)
"""

_READ_ONLY = """
def create(path):
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))

for folder in ("/usr", "/usr/bin", "/usr/local/lib", "/etc", "/etc/ssl/certs", "/opt", "/opt/env", "/opt/python",
               "/dev", "/proc", sys.prefix, os.path.dirname(os.__file__)):
    attempt(f"write into {folder}", create, f"{folder}/cloche-probe")
for path in ("/etc/passwd", "/etc/hosts", "/usr/bin/env", "/opt/env/bin/python3", os.__file__):
    attempt(f"change {path}", write_open, path)
"""

_DEVICES = """
allowed = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin", "stdout", "stderr"}
for name in os.listdir("/dev"):
    tell(f"/dev/{name}", "refused" if name in allowed else "gained")
for folder in ("/", "/tmp", "/sandbox", "/dev/shm"):
    attempt(f"mknod of memory in {folder}", os.mknod, f"{folder}/mem", 0o20666, os.makedev(1, 1))
    attempt(f"mknod of a disk in {folder}", os.mknod, f"{folder}/disk", 0o60666, os.makedev(8, 0))
    fuse = f"{folder}/fuse".encode()
    attempt(f"mknodat in {folder}", lambda: call("mknodat", -100, fuse, 0o20666, os.makedev(10, 229)))
"""

_HANDED_BACK = """
out = "/sandbox/output"
os.symlink(GIVEN["secret_file"], f"{out}/link")
os.symlink("/etc/passwd", f"{out}/passwd")
os.symlink("/proc/1/environ", f"{out}/environ")
os.symlink("../../../../../.." + GIVEN["secret_file"], f"{out}/relative")
os.symlink("/", f"{out}/folder")
os.symlink("loop", f"{out}/loop")
os.mkfifo(f"{out}/fifo")
socket.socket(socket.AF_UNIX).bind(f"{out}/socket")
for name in (b"new\\nline", b"\\xff\\xfe", b"\\x1b[31mred", b"-rf", "\\u202eabc".encode(), b"x" * 255):
    open(os.path.join(out.encode(), name), "w").close()
with open(f"{out}/giant", "wb") as file:
    file.truncate(1 << 40)
tell("what is handed back was prepared", "refused")
"""


def _take_back(scene: Scene, box: Sandbox | None) -> list[str]:
    """Read everything as a server would, and search it for the canary."""
    from time import monotonic

    assert box is not None
    gained: list[str] = []
    begin = monotonic()
    folder = scene.secret_file.rpartition("/")[0]
    for path in ("link", "relative", "environ", f"folder{scene.secret_file}", "fifo", "socket", "loop"):
        for full in (f"/sandbox/output/{path}", f"output/{path}"):
            try:
                data = box.files.read(full, length=65536)
            except (ClocheError, OSError, ValueError):
                continue
            if scene.canary.encode() in data:
                gained.append(f"reading {path} gave a file of the host")
    for path in ("output", f"output/folder{folder}", f"../../..{folder}", folder):
        try:
            names = [entry.path.rpartition("/")[2] for entry in box.files.list(path, depth=2)]
        except (ClocheError, OSError, ValueError):
            continue
        if scene.secret_file.rpartition("/")[2] in names:
            gained.append(f"listing {path} showed the host")
    if monotonic() - begin > 5:
        gained.append(f"reading it took {monotonic() - begin:.0f} s")
    return gained


PROBES = (
    Probe("T1", "The host's files are not there", _HOST_FILES),
    Probe("T1", "The host's Unix sockets, such as Docker's, are not there", _HOST_SOCKETS),
    Probe("T2", "Other processes are not visible", _OTHER_PROCESSES),
    Probe("T2", "/proc tells nothing of the kernel and changes nothing", _PROC_AND_SYS),
    Probe("T2", "/sys and control groups of the host are not there", _CONTROL_GROUPS),
    Probe("T3", "Nothing can be mounted, unmounted or moved", _MOUNTS),
    Probe("T3", "The system is read-only", _READ_ONLY),
    Probe("T11", "There are no devices, and none can be made", _DEVICES),
    Probe("T13", "Links, fifos and odd names in returned files lead nowhere", _HANDED_BACK, look=_take_back),
)
