"""The nursery's root file system: the host's programs and an `/etc` of our own, all read-only, and nothing else.

The launcher builds it once, in the nursery's mount namespace.  Each sandbox gets a copy of that namespace and moves the
folders into a root of its own (sandbox_root.py).
"""

from __future__ import annotations

import os
import stat

from cloche.walls.jail import linux, package_programs, shown_limits
from cloche.walls.jail.package_tools import PLACE, PLACES, WITHOUT_A_NETWORK
from cloche.walls.jail.programs import PROGRAMS, STAND_INS
from cloche.wire.layers import LAYERS, SLOTS, slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

WORKSPACE = "/sandbox"
HOME = "/home/user"  # the workspace again, under the name that many programs expect
FOLDERS = ("code", "data", "output", "temp")  # in the workspace
LIBRARY = "/run/lib"  # our own code: visible until the nursery has imported it
OWN_PROGRAMS = "/opt/bin"  # first on the PATH, see programs.py
NODE_PACKAGES = "/opt/env/lib/node_modules"  # linked to the top of each sandbox, where Node looks from every folder
KERNELS = "/opt/kernels"  # kernels that are programs of their own
_LOCALES = "/opt/prepared/locales"  # see cloche.languages.locales
SCRATCH = "/run/work"  # where a newborn sandbox prepares its file systems
PYTHON = "/opt/env/bin/python3"
PROGRAM = f"{WORKSPACE}/code/main.py"  # the nursery's program, at the path of every Python program; later covered
UID = 1000
HOST_TOPS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # on most hosts links to folders in /usr
OWN_TOPS = ("etc", "opt", "dev", "sys")  # folders of our making, which sandboxes see as they are

# Variables for the nursery only: no library may start threads, since threads do not survive a fork.
NURSERY_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

_READ_ONLY = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# The parts of the host's /etc that programs need and that reveal nothing about the host.
_ETC_FOLDERS = ("alternatives", "fonts", "ssl/certs", "perl", "R", "php")
_ETC_FILES = (
    *("ld.so.cache", "services", "protocols", "mime.types", "magic", "ssl/openssl.cnf", "manpath.config"),
    *("groff/man.local", "groff/mdoc.local", "locale.alias"),
    *("maven/m2.conf", "maven/logging/simplelogger.properties"),  # not its settings.xml, which may have passwords
)
_R_PROFILE = "Rprofile.site"
_ETC_OURS = {
    "passwd": "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
    f"user:x:{UID}:{UID}:user:{WORKSPACE}:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": f"root:x:0:\nuser:x:{UID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost cloche\n::1 localhost cloche\n",
    "hostname": "cloche\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "resolv.conf": "",
    "machine-id": "",
    "shells": "/bin/sh\n/bin/bash\n",
    "host.conf": "multi on\n",
    # Commits need an identity, and folders of the host may belong to others.  A program's own settings go before these.
    "gitconfig": "[user]\n\tname = user\n\temail = user@localhost\n[init]\n\tdefaultBranch = main\n"
    "[safe]\n\tdirectory = *\n",
    # R counts the processors in /proc/cpuinfo, which is the host's.
    _R_PROFILE: """local({
  site <- file.path(R.home("etc"), "Rprofile.site")
  if (file.exists(site)) source(site)
  setHook(packageEvent("parallel", "onLoad"), function(...) {
    shown <- length(eval(parse(text = sub("-", ":", readLines("/sys/devices/system/cpu/online")))))
    space <- asNamespace("parallel")
    unlockBinding("detectCores", space)
    assign("detectCores", function(all.tests = FALSE, logical = TRUE) shown, space)
    lockBinding("detectCores", space)
  })
})
""",
}


def environment(path: Sequence[str] = ()) -> dict[str, str]:
    """The environment of programs; `path` lists folders of toolchains outside the usual ones."""
    # With this variable the C library reads no archive of locales, so it is set only where we have some.
    locales = {"LOCPATH": _LOCALES} if os.path.isdir(_LOCALES) else {}
    places = (
        f"{PLACE}/bin",
        OWN_PROGRAMS,
        "/opt/env/bin",
        *path,
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    )
    return {
        "PATH": ":".join(places),
        "HOME": WORKSPACE,
        "USER": "user",
        "LOGNAME": "user",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        **locales,
        "TMPDIR": "/tmp",
        "XDG_CACHE_HOME": "/tmp/.cache",
        "XDG_CONFIG_HOME": "/tmp/.config",
        "IPYTHONDIR": "/tmp/.ipython",
        "MPLCONFIGDIR": "/tmp/.config/matplotlib",
        "MPLBACKEND": "agg",
        "NUMBA_CACHE_DIR": "/tmp/.cache/numba",
        "MATPLOTLIBRC": "/opt/env/share/matplotlib/matplotlibrc",
        "R_PROFILE": f"/etc/{_R_PROFILE}",
        "VIRTUAL_ENV": "/opt/env",
        "CLOCHE": "1",
        **PLACES,
        **WITHOUT_A_NETWORK,
    }


def furnish_tmp() -> None:
    """Link Matplotlib's list of fonts, which takes a second to make, to its place in /tmp."""
    os.mkdir("/tmp/.config")
    os.mkdir("/tmp/.config/matplotlib")
    for name in font_lists():
        os.symlink(f"{_FONTS}/{name}", f"/tmp/.config/matplotlib/{name}")


_FONTS = "/opt/env/share/matplotlib"
_found_lists: list[str] | None = None


def font_lists() -> list[str]:
    """The names of Matplotlib's font lists, read once for all sandboxes of a nursery."""
    global _found_lists
    if _found_lists is None:
        there = os.listdir(_FONTS) if os.path.isdir(_FONTS) else []
        _found_lists = [name for name in there if name.endswith(".json")]
    return _found_lists


def build(configuration: dict[str, Any], start: str) -> None:
    """Replace the root of this mount namespace by the sandboxes' root, with the program `start` in it."""
    # All sources are opened first, because the new root is built on /tmp and hides the files there.
    sources = _sources(configuration)
    held = [(linux.open_tree(source), target, flags) for source, target, flags in sources]
    kernels, programs = _read_kernels(configuration), _programs(configuration, sources)
    top, owner = "/tmp", configuration["root_uid"]
    options = f"size=8m,nr_inodes=16k,mode=755,uid={owner},gid={owner}"
    linux.mount("cloche", top, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)
    os.chdir(top)
    if configuration["privileged"]:
        _make_devices(owner)
    linux.set_file_owner(owner)
    _lay_out()
    _write_programs(programs)
    _write_kernels(kernels)
    os.mkdir(os.path.dirname(PROGRAM)[1:])
    _write(PROGRAM[1:], start.encode())
    # A sandbox moves these as a whole, with all that is mounted in them.
    own = [name for name in OWN_TOPS if not configuration["privileged"] or name != "dev"]
    for name in own:
        linux.mount(name, name, flags=linux.MS_BIND)
    for fd, target, flags in held:
        linux.mount_setattr(fd, flags)
        _make_target(fd, target)
        linux.move_mount(fd, target[1:])
        os.close(fd)
    linux.set_file_owner(0)
    _cover_packages_of_the_host(configuration)
    if "read-only" not in configuration["without"]:
        _make_read_only(top, own, configuration["privileged"])
    linux.pivot_root(".", ".")
    linux.umount(".")
    os.chdir("/")


def _make_read_only(top: str, own: Sequence[str], privileged: bool) -> None:
    read_only = linux.MS_REMOUNT | linux.MS_RDONLY | linux.MS_NOSUID
    for name in (top, *own):
        linux.mount("none", name, flags=read_only | linux.MS_BIND | linux.MS_NODEV)
    linux.mount("none", top, flags=read_only | linux.MS_NODEV)  # the file system too, however it is mounted
    if privileged:
        linux.mount("none", "dev", flags=read_only | linux.MS_BIND)
        linux.mount("none", "dev", flags=read_only)


def _sources(configuration: dict[str, Any]) -> list[tuple[str, str, int]]:
    """The folders of the host that are shown: source, target and mount attributes."""
    found = [("/usr", "/usr", _READ_ONLY)]
    found += [
        (f"/{n}", f"/{n}", _READ_ONLY) for n in HOST_TOPS if os.path.isdir(f"/{n}") and not os.path.islink(f"/{n}")
    ]
    jdks = [n for n in sorted(os.listdir("/etc")) if n.startswith("java-")]  # Debian's JDKs have their settings there
    found += [(f"/etc/{n}", f"/etc/{n}", _READ_ONLY) for n in (*_ETC_FOLDERS, *jdks) if os.path.isdir(f"/etc/{n}")]
    if not configuration["privileged"]:
        found += [(f"/dev/{n}", f"/dev/{n}", linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NOEXEC) for n in _DEVICES]
        # See enter.py: root can mount a /proc without one that is visible.
        found.append(("/proc", "/proc", linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV | linux.MOUNT_ATTR_NOEXEC))
    found.append((configuration["library"], f"{LIBRARY}/cloche", _READ_ONLY))
    found.append((configuration["base_prefix"], "/opt/python", _READ_ONLY))
    found.append((configuration["environment"], "/opt/env", _READ_ONLY))
    interpreter = f"python{configuration['python_version']}"
    patched = os.path.join(configuration["environment"], "interpreter", interpreter)
    if os.path.exists(patched):  # it finds its library at its place in the sandbox, see cloche.environment
        found.append((patched, f"/opt/python/bin/{interpreter}", _READ_ONLY))
    found += [(folder, slot(n), _READ_ONLY) for n, folder in enumerate(configuration.get("layers", ()))]
    shown = configuration.get("toolchains", ())
    return found + [(source, target, _READ_ONLY) for source, target in shown if os.path.isdir(source)]


_FOLDERS = [
    *(
        "etc",
        "etc/ssl",
        "etc/groff",
        "etc/maven",
        "etc/maven/logging",
        "dev",
        "dev/pts",
        "dev/shm",
        "proc",
        "run",
        "run/empty",
        "opt",
        "tmp",
        "usr",
    ),
    *(WORKSPACE[1:], LIBRARY[1:], SCRATCH[1:]),
]

# Mount points for layers of packages, which are attached while a sandbox runs (layer_mounts.py).
_LAYERS = [LAYERS[1:], *(slot(number)[1:] for number in range(SLOTS))]


def _lay_out() -> None:
    for folder in (*_FOLDERS, *_LAYERS):
        try:
            os.mkdir(folder)
        except FileExistsError:
            pass  # dev has been mounted by now
    links = {
        "dev/fd": "/proc/self/fd",
        "dev/stdin": "/proc/self/fd/0",
        "dev/stdout": "/proc/self/fd/1",
        "dev/stderr": "/proc/self/fd/2",
        "dev/ptmx": "pts/ptmx",
        "etc/mtab": "/proc/self/mounts",
        "etc/os-release": "/usr/lib/os-release",
    }
    for name in HOST_TOPS:
        if os.path.islink(f"/{name}"):
            links[name] = os.readlink(f"/{name}")
    for link, target in links.items():
        os.symlink(target, link)
    shown_limits.make_links(".")
    for name, text in _ETC_OURS.items():
        _write(f"etc/{name}", text.encode())
    zone = _time_zone()
    if zone:
        os.symlink(zone, "etc/localtime")
    for name in _ETC_FILES if zone else (*_ETC_FILES, "localtime"):
        try:
            with open(f"/etc/{name}", "rb", buffering=0) as source:
                _write(f"etc/{name}", source.read())
        except OSError:
            continue  # missing on this host, or not readable


def _time_zone() -> str:
    """The target of the host's /etc/localtime, if it is visible inside: R and Java read the zone's name from it."""
    try:
        target = os.path.normpath(os.path.join("/etc", os.readlink("/etc/localtime")))
    except OSError:
        return ""
    return target if target.startswith("/usr/") and os.path.isfile(target) else ""


def _write(path: str, data: bytes, mode: int = 0o644) -> None:
    """Write a file with few system calls: a cold `cloche run` waits for two dozen files."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        while data:
            data = data[os.write(file, data) :]
    finally:
        os.close(file)


def _read_kernels(configuration: dict[str, Any]) -> dict[str, bytes]:
    """The files of kernels that are not Python; copied, since each mount makes every sandbox slower."""
    scripts = os.path.join(configuration["library"], "kernels", "scripts")
    found = {}
    for folder, _, names in os.walk(scripts) if configuration.get("kernels") else ():  # not for single programs
        for name in names:
            with open(f"{folder}/{name}", "rb") as file:
                found[f"{folder}/{name}".removeprefix(scripts)] = file.read()
    return found


def _build_tools(configuration: dict[str, Any], sources: list[tuple[str, str, int]]) -> list[str]:
    """The tools for projects with dependencies that sandboxes have on their PATH."""
    folders = ["/usr/local/bin", "/usr/bin"]
    for folder in configuration.get("path", ()):
        shown = [(source, target) for source, target, _ in sources if f"{folder}/".startswith(f"{target}/")]
        folders += [source + folder[len(target) :] for source, target in shown]
    return [
        name for name in package_programs.BUILD_TOOLS if any(os.path.lexists(f"{folder}/{name}") for folder in folders)
    ]


def _programs(configuration: dict[str, Any], sources: list[tuple[str, str, int]]) -> dict[str, bytes]:
    found: dict[str, bytes] = {
        name: text.encode() for name, text in STAND_INS.items() if not os.path.exists(f"/usr/bin/{name}")
    }
    usual = {name: text.encode() for name, text in PROGRAMS.items()}
    packages = package_programs.read(configuration["library"], _build_tools(configuration, sources))
    return {**usual, **found, **packages}


def _write_programs(programs: dict[str, bytes]) -> None:
    os.mkdir(OWN_PROGRAMS[1:])
    for name, text in programs.items():
        _write(f"{OWN_PROGRAMS[1:]}/{name}", text, 0o755)


def _write_kernels(kernels: dict[str, bytes]) -> None:
    for name, text in kernels.items():
        path = f"{KERNELS[1:]}{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _write(path, text)


def _make_devices(owner: int) -> None:
    """Make our own device nodes on one file system: fewer mounts make sandboxes quicker to start and to end."""
    os.mkdir("dev", 0o755)
    options = f"size=64k,nr_inodes=32,mode=755,uid={owner},gid={owner}"
    linux.mount("devices", "dev", "tmpfs", linux.MS_NOSUID | linux.MS_NOEXEC, options)
    for name in _DEVICES:
        os.mknod(f"dev/{name}", stat.S_IFCHR, os.stat(f"/dev/{name}").st_rdev)
        os.chmod(f"dev/{name}", 0o666)
        os.chown(f"dev/{name}", owner, owner)


def _make_target(fd: int, target: str) -> None:
    if os.path.lexists(target[1:]):
        return
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.makedirs(target[1:])
    else:
        os.close(os.open(target[1:], os.O_CREAT | os.O_WRONLY, 0o644))


def _cover_packages_of_the_host(configuration: dict[str, Any]) -> None:
    """Hide the packages that were installed into the host's interpreter, which sandboxes use.

    A file in their place names the environment's packages: `venv --system-site-packages` makes environments that see
    the packages of the interpreter itself, and not those of the environment that it was called in.
    """
    name = f"python{configuration['python_version']}"
    os.mkdir("run/packages")
    _write("run/packages/environment.pth", f"/opt/env/lib/{name}/site-packages\n".encode())
    for packages in (f"lib/{name}/site-packages", f"local/lib/{name}/dist-packages", "lib/python3/dist-packages"):
        if os.path.isdir(f"opt/python/{packages}"):  # the last two: Debian's
            linux.bind("run/packages", f"opt/python/{packages}")
