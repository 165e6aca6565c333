"""Runs Python programs in forks of a warm Python; they behave as under `python3 main.py`.

The agent forks.  The child raises `BecomeProgram` to unwind to the bottom of its stack, makes itself a clean process,
and waits for the order: which program or kernel to become.  It does everything it can before the order arrives.
"""

from __future__ import annotations

import gc
import os
import sys

from cloche.agent import libc, own_packages, python_script, signals, variables
from cloche.wire.light_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from cloche.agent.messages import KernelOptions, KernelOrder, ProgramOrder

_prctl = libc.function("prctl", "lllll")

# Random generators that libraries created at import, before the fork; the nursery collects them (see `note_state`).
_generators: list[Any] = []
_cloche_modules: list[str] = []  # Cloche's modules, which a program must not find
_kernel_modules: list[str] = []  # modules that kernels need, which a program must not find either
_before_programs: list[Callable[[], None]] = []
# Entry points of the kernels that a fork can become.
_kernels: dict[str, Callable[[int, dict[str, Any]], NoReturn]] = {}


class BecomeProgram(BaseException):
    """Raised in a forked child, to leave the agent's stack and become a program."""

    def __init__(
        self,
        stdin: int,
        stdout: int,
        stderr: int,
        order: int | None,
        expected: dict[str, str] | None,
        known_order: ProgramOrder | None,
    ) -> None:
        super().__init__()
        self._descriptors = (stdin, stdout, stderr, order)
        self._expected = expected  # the probable environment variables, if there is time until the order comes
        self._known_order = known_order  # the order, if it was known before the fork

    def become(self) -> NoReturn:
        """Become the program; called at the bottom of the stack, never returns."""
        try:
            order = _make_clean(*self._descriptors)
            if self._expected is not None:
                _warm_up(self._expected)
            program = self._known_order
            if order is not None:
                received = _receive_order(order)
                if "kernel" in received:
                    _become_kernel(order, received)
                os.close(order)
                program = received
            assert program is not None
            python_script.hide_modules(_kernel_modules)
            for call in _before_programs:
                call()
        except BaseException:
            os._exit(125)
        python_script.run(program)


def import_ahead(names: list[str]) -> None:
    """Name the modules of an environment that a waiting Python imports while there is time."""
    own_packages.imports_ahead[:] = names


def enter_fresh(order: KernelOptions) -> None:
    """Do in an interpreter that has just started what a fork does before it becomes a kernel: hide our modules, and
    take over the environment.
    """
    variables.note()
    python_script.hide_modules([name for name in sys.modules if name == "cloche" or name.startswith("cloche.")])
    _enter(order)


def offer_kernels(entry_points: dict[str, Callable[[int, dict[str, Any]], NoReturn]]) -> None:
    """Let forks become these kernels, by name.  Call this while the kernels' code can still be imported."""
    _kernels.update(entry_points)


def hide_from_programs(names: list[str]) -> None:
    """Name the modules that were imported for kernels only."""
    _kernel_modules[:] = names


def before_programs(call: Callable[[], None]) -> None:
    """Have a function called in every fork that becomes a program, not in those that become a kernel."""
    _before_programs.append(call)


def has_kernel(name: str) -> bool:
    """Say whether a fork can become this kernel."""
    return name in _kernels


def needs_fresh_interpreter(environment: dict[str, str]) -> bool:
    """Say whether the environment sets variables that Python or the C library reads only at start."""
    if environment.get("LANG") != os.environ.get("LANG"):
        return True
    return any(
        name.startswith(("PYTHON", "LD_", "LC_", "MALLOC_", "GLIBC_")) and os.environ.get(name) != value
        for name, value in environment.items()
    )


def send_order(fd: int, program: ProgramOrder | KernelOrder) -> None:
    """Tell a waiting child which program or kernel to become."""
    data = dumps({**program, "env": variables.difference(program["env"])}).encode()
    data = len(data).to_bytes(4, "big") + data
    while data:
        data = data[os.write(fd, data) :]


def reset_signals() -> None:
    """Set the signals as a Python program expects them: none blocked, none caught."""
    signals.set_wakeup_fd(-1)
    signals.signal(signals.SIGCHLD, signals.SIG_DFL)
    signals.pthread_sigmask(signals.SIG_SETMASK, ())


def reset_all_signals() -> None:
    """Set the signals as other programs expect them: Python ignores two, and exec would pass that on."""
    reset_signals()
    for number in (signals.SIGPIPE, signals.SIGXFSZ):
        signals.signal(number, signals.SIG_DFL)


def set_dumpable(dumpable: bool) -> None:
    """Allow or forbid other processes of the same user to trace this one and read its memory."""
    if _prctl(4, int(dumpable), 0, 0, 0):  # PR_SET_DUMPABLE
        raise OSError("prctl(PR_SET_DUMPABLE) failed")


def block_harmful_imports() -> None:
    """Make imports go without modules that change a process for good; the nursery calls this before its imports.

    `readline` catches SIGWINCH and takes over `input`.  IPython needs `pdb`, which imports it since Python 3.13.
    """
    sys.modules["readline"] = None  # type: ignore[assignment]


def note_state() -> None:
    """Record the state that a fork must not share; the nursery calls this after its imports."""
    python_script.seal()
    variables.note()
    platform = sys.modules.get("platform")
    if platform is not None:  # it caches the host's name if a library has asked for it
        platform._uname_cache = None  # type: ignore[attr-defined]
        platform._platform_cache.clear()
    _cloche_modules[:] = [name for name in sys.modules if name in ("cloche", "readline") or name.startswith("cloche.")]
    random = sys.modules.get("random")
    if random is not None:
        kinds = (random.Random,)
        found = [thing for thing in gc.get_objects() if type(thing) in kinds]  # but not those that are frozen already
        _generators[:] = dict.fromkeys([*_generators, *found])


def _make_clean(stdin: int, stdout: int, stderr: int, order: int | None) -> int | None:
    """Become a separate process with nothing open but its streams and the order, whose descriptor is returned."""
    os.setsid()
    moved = 2 if order is None else os.dup(order)
    while order is not None and moved < 3:
        moved = os.dup(moved)
    for number, fd in enumerate((stdin, stdout, stderr)):
        os.dup2(fd, number)
    os.closerange(3, moved)
    os.closerange(moved + 1, 1 << 30)
    reset_signals()
    signals.signal(signals.SIGINT, signals.default_int_handler)
    # Nobody may look into the agent, but a program may look into itself.  Its memory has nothing but imports.
    set_dumpable(True)
    threading = sys.modules.get("threading")
    if threading is not None:
        threading.main_thread()._set_native_id()  # Python does not update it after a fork
    _reseed()
    _open_standard_streams()
    python_script.hide_modules(_cloche_modules)
    gc.enable()
    return None if order is None else moved


def _become_kernel(control: int, order: KernelOrder) -> NoReturn:
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    _enter(order)
    _kernels[order["kernel"]](control, {**order})


def _enter(order: KernelOptions) -> None:
    os.chdir(order["cwd"])
    python_script.set_environment(order["env"])
    own_packages.put_back()


def _warm_up(expected: dict[str, str]) -> None:
    """Touch what every program touches: memory shared with the nursery is copied at its first use."""
    variables.put(expected)
    own_packages.put_back()
    own_packages.want_a_fresh_python()
    own_packages.import_ahead()
    variables.changed(loads(dumps({"env": variables.difference(expected)}))["env"])
    exec(compile("import sys\nx = [str(i) for i in range(3)]\ndef f(): pass\nf()", "", "exec"), {"__name__": ""})
    gc.collect()


def _reseed() -> None:
    """Reseed generators, so that sandboxes draw different numbers.  (Python itself reseeds `random` after a fork.)"""
    for generator in _generators:
        generator.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None:  # its key proves to a process that another belongs to the same program
        multiprocessing.current_process().authkey = os.urandom(32)
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile._name_sequence = None  # type: ignore[attr-defined]


def _open_standard_streams() -> None:
    # Line buffering even into a pipe: output is seen as it happens, and a kill loses nothing that was printed.
    sys.stdin = sys.__stdin__ = open(  # type: ignore[misc]
        0, encoding="utf-8", errors="surrogateescape", newline="\n", closefd=False
    )
    # Bytes that are not UTF-8 pass unchanged, as with any Python in a C locale.
    sys.stdout = sys.__stdout__ = open(  # type: ignore[misc]
        1, "w", buffering=1, encoding="utf-8", errors="surrogateescape", closefd=False
    )
    sys.stderr = sys.__stderr__ = open(  # type: ignore[misc]
        2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    for stream, name, mode in (
        (sys.stdin, "<stdin>", "r"),
        (sys.stdout, "<stdout>", "w"),
        (sys.stderr, "<stderr>", "w"),
    ):
        stream.buffer.raw.name = name  # type: ignore[attr-defined]
        stream.mode = mode  # type: ignore[misc]


def _receive_order(fd: int) -> Any:
    def exactly(count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = os.read(fd, count - len(data))
            if not part:
                os._exit(0)  # the agent does not need this spare
            data += part
        return data

    order = loads(exactly(int.from_bytes(exactly(4), "big")).decode())
    order["env"] = variables.changed(order["env"])
    return order
