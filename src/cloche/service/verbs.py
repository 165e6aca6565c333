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


def verb(
    scope: str,
) -> Callable[[Callable[Concatenate[Verbs, Caller, P], R]], Callable[Concatenate[Verbs, Caller, P], R]]:
    """Declare a method as a verb that needs a scope."""

    def declare(method: Callable[Concatenate[Verbs, Caller, P], R]) -> Callable[Concatenate[Verbs, Caller, P], R]:
        VERBS[f"{method.__module__.rpartition('.')[2]}.{method.__name__}"] = scope

        @wraps(method)
        def checked(self: Verbs, caller: Caller, /, *args: P.args, **kwargs: P.kwargs) -> R:
            check_access(caller, scope)
            return method(self, caller, *args, **kwargs)

        return checked

    return declare
