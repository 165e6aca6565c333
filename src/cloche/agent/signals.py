"""Signals without the `signal` module, which brings `enum` along: milliseconds that a cold start would wait for."""

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
