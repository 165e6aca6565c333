"""The egress process of this process (cloche/egress): started for the first sandbox that may use the network.

Asynchronous and blocking engines share it.  It ends with this process, since it then loses its control socket.
"""

from __future__ import annotations

import atexit
import os
import sys
from _socket import AF_UNIX, MSG_NOSIGNAL, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket, socketpair
from _struct import pack
from _thread import allocate_lock

from cloche.errors import SandboxFailed

_CONTROL = 3  # in that process
_PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "egress", "__main__.py")
# The only variables that it gets: which certificates it trusts, and its language.
_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "LANG", "LC_ALL", "RES_OPTIONS", "LOCALDOMAIN")

own_ports: set[int] = set()  # on which Cloche listens on this host: closed to every sandbox

_lock = allocate_lock()
_control: socket | None = None
_pid = 0
_is_registered = False  # to end the process with this one


def open_channel() -> socket:
    """Return a channel to the egress process for one sandbox; start the process if it does not run."""
    ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
    try:
        rights = (SOL_SOCKET, SCM_RIGHTS, pack("i", theirs.fileno()))
        with _lock:
            for _ in range(2):
                try:
                    _connected().sendmsg([b"sandbox"], [rights], MSG_NOSIGNAL)
                    return ours
                except OSError:
                    _give_up()  # it was killed
        raise SandboxFailed("The process for network connections cannot be started.", hint="Run `cloche doctor`.")
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()


def pid() -> int:
    """The process's id; 0 while there is none."""
    return _pid


def _connected() -> socket:
    global _control, _pid, _is_registered
    if not _is_registered:
        _is_registered = True
        import atexit

        atexit.register(_give_up)
    if _control is None:
        ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        null = os.open(os.devnull, os.O_RDWR)
        high = _duplicate_high(theirs.fileno())
        try:
            actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1)]
            actions.append((os.POSIX_SPAWN_DUP2, high, _CONTROL))
            environment = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
            argv = [sys.executable, "-I", "-B", _PROGRAM]
            _pid = os.posix_spawn(argv[0], argv, environment, file_actions=actions, setsid=True)
            _control = ours
        finally:
            theirs.close()
            os.close(null)
            os.close(high)
    return _control


def _give_up() -> None:
    """Close the control socket, which ends the process, and wait for that."""
    global _control, _pid
    if _control is not None:
        _control.close()
        try:
            os.waitpid(_pid, 0)
        except ChildProcessError:
            pass
    _control, _pid = None, 0


def _forget() -> None:
    """At the end of this process; in a forked process, leave it to the parent."""
    global _control, _pid, _lock
    if _control is not None:
        _control.close()
    _control, _pid, _lock = None, 0, allocate_lock()


def _duplicate_high(fd: int) -> int:
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    return fcntl(fd, F_DUPFD_CLOEXEC, 10)


os.register_at_fork(after_in_child=_forget)
atexit.register(_forget)  # without its control socket it ends
