"""The `signal` module without its import of `enum`, which would cost a cold start several milliseconds."""

from __future__ import annotations

from _signal import (  # type: ignore[import-not-found]
    ITIMER_REAL,
    SIG_DFL,
    SIG_IGN,
    SIG_SETMASK,
    SIGALRM,
    SIGCHLD,
    SIGINT,
    SIGKILL,
    SIGPIPE,
    SIGTERM,
    SIGXFSZ,
    default_int_handler,
    getsignal,
    pause,
    pthread_sigmask,
    set_wakeup_fd,
    setitimer,
    signal,
)

__all__ = [
    "ITIMER_REAL",
    "SIGALRM",
    "SIGCHLD",
    "SIGINT",
    "SIGKILL",
    "SIGPIPE",
    "SIGTERM",
    "SIGXFSZ",
    "SIG_DFL",
    "SIG_IGN",
    "SIG_SETMASK",
    "default_int_handler",
    "getsignal",
    "pause",
    "pthread_sigmask",
    "set_wakeup_fd",
    "setitimer",
    "signal",
]
