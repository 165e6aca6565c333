"""Declares the verbs of the service: everything that a caller can ask for, each with the scope that it needs.

A door calls verbs and nothing else.  Each verb checks the caller's scope here, so that a route with a wrong declaration
cannot give a key more than its scope.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from cloche.policy.access import check_access
from cloche.policy.caller import Caller

Verbs = TypeVar("Verbs")
P = ParamSpec("P")
R = TypeVar("R")

VERBS: dict[str, str] = {}  # the scope of each verb, by its name: "files.read"
STARTS: dict[str, str] = {}  # the kind of process that a verb starts for its caller, by the verb's name


def verb(
    scope: str, starts: str = ""
) -> Callable[[Callable[Concatenate[Verbs, Caller, P], R]], Callable[Concatenate[Verbs, Caller, P], R]]:
    """Declare a method as a verb that needs a scope.

    A verb that starts processes also declares their kind.  It refuses a caller who has used up the limits of the day,
    and it writes an entry in the audit log.  The CPU time is charged with the sandbox (live.py), or with the run.
    """

    def declare(method: Callable[Concatenate[Verbs, Caller, P], R]) -> Callable[Concatenate[Verbs, Caller, P], R]:
        name = f"{method.__module__.rpartition('.')[2]}.{method.__name__}"
        VERBS[name] = scope
        if starts:
            STARTS[name] = starts

        @wraps(method)
        def checked(self: Verbs, caller: Caller, /, *args: P.args, **kwargs: P.kwargs) -> R:
            check_access(caller, scope)
            return method(self, caller, *args, **kwargs)

        return checked

    return declare
