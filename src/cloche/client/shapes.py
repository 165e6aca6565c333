"""Turns the server's JSON into the classes of `model/`, and requests into JSON; `doors/http` is the server's half."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from json import dumps
from urllib.parse import quote

from cloche import errors
from cloche.errors import ClocheError, FileProblem, Misconfigured, Refused, SandboxFailed
from cloche.model.events import Building, CellEvent, Cleared, End, Event, Exit, Failed, Output, Shown, Started, Waiting
from cloche.model.files import Entry
from cloche.model.history import Best, Candidate, FileChanges, Moment, Restored, Variable, VariableChanges, VariableList
from cloche.model.installs import FoundPackage, FoundPackages, Install, InstalledPackage
from cloche.model.limits import BY_NAME, Limits
from cloche.model.network import Network, NetworkPolicy
from cloche.model.plain import Plain
from cloche.model.result import PARTS, Display, Error, Raised, Result, StackFrame, Usage
from cloche.model.secret import Secret
from cloche.model.wording import worded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _collections_abc import Sequence
    from typing import Any

    from cloche.model.files import Mount
    from cloche.model.packages import Requirement
    from cloche.sandbox.checks import Data

_ERRORS = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ClocheError)
}
_SHORT = 64 << 10  # bytes; longer data is sent as base64
_KEY_HINT = "Set CLOCHE_API_KEY to a key of this server; `cloche key`, on its host, prints the admin's."
ADDRESS_HINT = "Set url= or CLOCHE_URL to the address of a Cloche server."


# Answers


def result(payload: dict[str, Any]) -> Result:
    """Parse the outcome of a run."""
    fields = fields_of(Result, payload)
    for name, kind in PARTS.items():
        fields[name] = tuple(kind(**fields_of(kind, part)) for part in payload.get(name) or ())
    if payload.get("error") is not None:
        fields["error"] = run_error(payload["error"])
    for stream in ("stdout", "stderr"):
        fields[f"{stream}_bytes"] = _bytes(payload[stream], payload.get(f"{stream}_base64"))
    return Result(**fields)


def run_error(payload: dict[str, Any]) -> Error:
    """Parse the reason why a run failed."""
    fields = fields_of(Error, payload)
    fields["raised"] = tuple(_raised(one) for one in fields.get("raised") or ())
    fields["hint"] = worded(str(fields.get("hint") or ""), "python")
    return Error(**fields)


def _raised(payload: dict[str, Any]) -> Raised:
    fields = fields_of(Raised, payload)
    fields["frames"] = tuple(StackFrame(**fields_of(StackFrame, one)) for one in fields.get("frames") or ())
    return Raised(**fields)


def display(payload: dict[str, Any]) -> Display:
    """Parse a display of a cell."""
    return Display(**fields_of(Display, payload))


def cell_event(kind: str, payload: dict[str, Any]) -> CellEvent | None:
    """Parse an event of a cell; return None for a kind that the library has no event for."""
    if kind in ("stdout", "stderr"):
        return Output(kind, _bytes(payload["text"], payload.get("data")))
    if kind == "result":
        return Shown(display(payload["result"]), bool(payload.get("update")))
    if kind == "started":
        return Started(payload.get("pid") or 0)
    if kind == "clear":
        return Cleared()
    if kind == "waiting":
        return Waiting(bool(payload["waiting"]))
    if kind == "error":
        return Failed(run_error(payload["error"]))
    return End(result(payload["result"])) if kind == "end" else None


def command_event(kind: str, payload: dict[str, Any]) -> Event | None:
    """Parse an event of a program or command; return None for a kind that the library has no event for."""
    if kind in ("stdout", "stderr"):
        return Output(kind, _bytes(payload["text"], payload.get("data")))
    if kind == "started":
        return Started(payload["pid"])
    if kind == "building":
        return Building(payload["step"])
    if kind == "waiting":
        return Waiting(bool(payload["waiting"]))
    return Exit(result(payload["result"])) if kind in ("exit", "end") else None


def entry(payload: dict[str, Any]) -> Entry:
    """Parse a file, folder or link."""
    return Entry(**fields_of(Entry, payload))


def limits(payload: dict[str, Any]) -> Limits:
    """Parse the limits of a sandbox."""
    return Limits.of(**{name: value for name, value in payload.items() if name in BY_NAME})


def usage(payload: dict[str, Any]) -> Usage:
    """Parse the resources that a sandbox uses."""
    return Usage(**fields_of(Usage, payload))


def network_policy(payload: dict[str, Any]) -> NetworkPolicy:
    """Parse a sandbox's access to the network."""
    return NetworkPolicy(*(_network(payload[name]) for name in NetworkPolicy._fields))


def _network(payload: dict[str, Any]) -> Network:
    fields = fields_of(Network, payload)
    fields["secrets"] = {name: _secret(one) for name, one in fields.get("secrets", {}).items()}
    return Network(**fields)


def _secret(payload: dict[str, Any]) -> Secret:
    hosts, variable, stored = payload["hosts"], payload.get("variable", True), payload.get("stored", "")
    return Secret("", hosts, variable, stored) if stored else Secret.kept(hosts, variable)


def installed_package(payload: dict[str, Any]) -> InstalledPackage:
    """Parse a package of a sandbox."""
    return InstalledPackage(**fields_of(InstalledPackage, payload))


def install(payload: dict[str, Any]) -> Install:
    """Parse the outcome of installing packages."""
    packages, satisfied = (tuple(map(installed_package, payload[name])) for name in ("packages", "satisfied"))
    return Install(packages, satisfied, tuple(payload["warnings"]), tuple(payload["restart"]))


def found_packages(payload: dict[str, Any]) -> FoundPackages:
    """Parse the packages that a search has found."""
    found = (FoundPackage(**fields_of(FoundPackage, each)) for each in payload["items"])
    return FoundPackages(found, tuple(payload["warnings"]))


def moment(payload: dict[str, Any]) -> Moment:
    """Parse an entry of a session's history."""
    return Moment(**fields_of(Moment, payload))


def restored(payload: dict[str, Any]) -> Restored:
    """Parse the outcome of going back to a checkpoint."""
    return Restored(payload["lost"], tuple(payload["restarted"]), payload["files"])


def file_changes(payload: dict[str, Any]) -> FileChanges:
    """Parse the files that an attempt has changed."""
    return FileChanges(*(tuple(payload[kind]) for kind in ("created", "changed", "removed")))


def variable_changes(payload: dict[str, Any]) -> VariableChanges:
    """Parse the variables that an attempt has changed."""
    created, changed = (
        tuple(Variable(**fields_of(Variable, one)) for one in payload[kind]) for kind in ("created", "changed")
    )
    return VariableChanges(created, changed, tuple(payload["removed"]))


def variable_list(payload: dict[str, Any]) -> VariableList:
    """Parse the variables of a context."""
    items = tuple(Variable(**fields_of(Variable, one)) for one in payload["items"])
    return VariableList(items, payload["total"], payload["state"])


def best(payload: dict[str, Any]) -> Best:
    """Parse the outcome of several candidates."""
    return Best(
        payload["index"],
        tuple(Candidate(one["code"], result(one["result"]), one["score"]) for one in payload["candidates"]),
    )


def error(status: int, payload: Any, url: str = "", *, has_key: bool = True) -> ClocheError:
    """Return the exception for an answer that is an error; `has_key`: a key was sent with the request."""
    if not isinstance(payload, dict) or not isinstance(payload.get("error"), dict):
        if status < 500 or status == 501:
            return Misconfigured(f"What answers at {url} is not a Cloche server (status {status}).", ADDRESS_HINT)
        return SandboxFailed(
            f"{url} answers with the status {status}, and not as a Cloche server does.",
            "Is the address right, and does the server run? A proxy in front of it may answer in its place.",
        )
    problem = payload["error"]
    message, hint = (worded(str(problem.get(name) or ""), "python") for name in ("message", "hint"))
    kind = str(problem.get("kind"))
    if kind == "unauthorized":
        what = "does not accept this API key: it is wrong, or was revoked" if has_key else "needs an API key"
        return Refused(f"The server at {url} {what}.", _KEY_HINT)
    if kind == "file":
        return FileProblem(message, hint, (problem.get("details") or {}).get("errno") or 0)
    if kind in _ERRORS:
        return _ERRORS[kind](message, hint)
    other = (Refused if status < 500 or kind == "busy" else SandboxFailed)(message, hint)
    other.code = kind
    return other


# Requests


def given(name: str, data: Data | None) -> dict[str, str]:
    """Encode input: as `stdin` where it is a short text, otherwise as `stdin_base64`."""
    if data is None:
        return {}
    try:
        if len(data) > _SHORT:
            return {f"{name}_base64": base64(data)}  # as text it could be six times as long
        return {name: str(data, "utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64(data)}


def file(data: Data) -> str | dict[str, str]:
    """Encode the contents of a file: as text where they are short text, otherwise as base64."""
    payload = given("text", data)
    return payload["text"] if "text" in payload else {"base64": payload["text_base64"]}


def limits_fields(limits: Limits) -> dict[str, Any]:
    """Encode limits for the server."""
    return limits.by_name()


def network_fields(network: Network | None) -> dict[str, Any] | None:
    """Encode a policy with the values of its secrets."""
    return None if network is None else network.with_values()


def packages_fields(requirements: Sequence[Requirement]) -> dict[str, list[str]]:
    """Encode packages by language; a requirement is sent with its hashes."""
    fields: dict[str, list[str]] = {}
    for each in requirements:
        text = " ".join((each.text, *(f"--hash={digest}" for digest in each.hashes)))
        fields.setdefault(each.ecosystem, []).append(text)
    return fields


def mounts(given: tuple[Mount, ...]) -> list[dict[str, Any]]:
    """Encode the folders of the server's host that the sandbox should see."""
    return [{"source": one.source, "target": one.target, "writable": one.writable} for one in given]


def json(payload: Any) -> bytes:
    """Encode the body of a request; lone surrogates, which UTF-8 cannot express, are escaped."""
    try:
        return dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return dumps(payload, separators=(",", ":")).encode()


def base64(data: Data) -> str:
    """Encode bytes as a text."""
    return b2a_base64(data, newline=False).decode("ascii")


def quoted(text: str) -> str:
    """Quote a text as one segment of a path, or one value of a query; it may stand for bytes that are not UTF-8."""
    return quote(text.encode("utf-8", "surrogateescape"), safe="")


def _bytes(text: str, data: str | None) -> bytes:
    return text.encode("utf-8", "surrogateescape") if data is None else a2b_base64(data)


def fields_of(kind: type[Plain], payload: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a JSON object that are fields of a class; a newer server may send more."""
    return {name: payload[name] for name in kind._fields if name in payload}
