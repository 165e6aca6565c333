"""The server's configuration: every setting is declared once, and read from a file, the environment and flags.

    loaded = load({"port": "7600"})          flags by field name, as argparse returns them after `add_flags`
    loaded.value.port, loaded.sources["port"]                                        7600, "flag --port"

A file is TOML with the names of fields as keys.  It is the one that `--config` names, else the one that CLOCHE_CONFIG
names, else `$XDG_CONFIG_HOME/cloche/config.toml` if that exists.  The settings of the engine are in settings.py, which
is quick enough to import for a cold `cloche run`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Any

from cloche import setting_kinds as kinds
from cloche.errors import Misconfigured
from cloche.model.limits import LIMITS, Limit
from cloche.setting_kinds import Kind, masked
from cloche.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from dataclasses import Field

_DAY_S = 86400.0
_LONGEST_S = 3650 * _DAY_S


def _setting(kind: Kind, default: Any, meaning: str, **more: Any) -> Any:
    """Declare a field; `low`, `high` and `choices` bound it, `shown` describes a default that is computed."""
    how = {"default_factory": default} if callable(default) else {"default": default}
    return field(metadata={"kind": kind, "meaning": meaning, **more}, **how)


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """The folder for data unless the operator names another."""
    return _xdg(environ, "XDG_DATA_HOME", ".local/share") / "cloche"


def _cores_times_16() -> int:
    return 16 * len(os.sched_getaffinity(0))


def _bound(limit: Limit) -> tuple[str, type, Any]:
    """The field for the operator's bound on a limit."""
    kind, make = _KINDS_OF_LIMITS[limit.unit]
    meaning = f"The largest `{limit.name}` that callers may ask for."
    return limit.setting, make, _setting(kind, make(limit.allowed), meaning, low=limit.low, high=limit.high, limit=True)


_KINDS_OF_LIMITS: dict[str, tuple[Kind, type]] = {
    "seconds": (kinds.SECONDS, float),
    "bytes": (kinds.SIZE, int),
    "cores": (kinds.NUMBER, float),
    "processes": (kinds.WHOLE, int),
}

if TYPE_CHECKING:

    class Bounds:
        """`max_timeout`, `max_memory` …: `cloche.policy.limits` reads them."""

else:
    Bounds = make_dataclass("Bounds", map(_bound, LIMITS), frozen=True, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class Configuration(Bounds):
    """How the server runs; sizes are bytes, times are seconds."""

    host: str = _setting(kinds.ADDRESS, "127.0.0.1", "Address to listen on.")
    port: int = _setting(kinds.WHOLE, 7500, "Port to listen on; 0 takes any free port.", low=0, high=65535)
    data_dir: Path = _setting(  # noqa: RUF009  (it makes a field)
        kinds.PATH,
        lambda: default_data_dir(os.environ),
        "Folder for the admin's key, the database and persistent workspaces.",
        shown="$XDG_DATA_HOME/cloche",
    )
    database_url: str | None = _setting(
        kinds.DATABASE, None, "Database for runs, keys and usage: SQLite or PostgreSQL.", shown="sqlite, in data_dir"
    )
    log_level: str = _setting(
        kinds.TEXT, "info", "Least severe level to log.", choices=("debug", "info", "warning", "error")
    )
    log_format: str = _setting(kinds.TEXT, "text", "Format of the log.", choices=("text", "json"))
    auth: bool = _setting(kinds.FLAG, True, "Require a key; only a server on a loopback address can do without.")
    hosts: tuple[str, ...] = _setting(kinds.HOSTS, (), "Further host names of the server (Host header).")
    origins: tuple[str, ...] = _setting(
        kinds.ORIGINS, (), "Other sites whose pages may call the server (Origin header)."
    )
    ports_domain: str = _setting(
        kinds.DOMAIN, "localhost", "Domain for servers inside sandboxes: each gets the name <token>.<domain>."
    )
    runs_at_once: int = _setting(
        kinds.WHOLE,
        _cores_times_16,
        "Runs at the same time; further runs wait.",
        low=1,
        high=100_000,
        shown="16 per core",
    )
    queue: int = _setting(kinds.WHOLE, 256, "Runs that may wait; further runs are refused.", low=0, high=1_000_000)
    queue_wait: float = _setting(
        kinds.SECONDS, 30.0, "Seconds that a run may wait before it is refused.", low=0, high=3600
    )
    memory_reserve: int = _setting(
        kinds.SIZE,
        256 << 20,
        "Memory of the host to keep free; runs wait while less is free.",
        low=0,
        high=1 << 44,
    )
    readers_per_key: int = _setting(
        kinds.WHOLE,
        512,
        "Streams that one key may have open: events, terminals, watches, archives.",
        low=1,
        high=100_000,
    )
    readers_per_sandbox: int = _setting(
        kinds.WHOLE, 64, "Streams that may be open for one sandbox or one run.", low=1, high=100_000
    )
    sandboxes: int = _setting(kinds.WHOLE, 200, "Sandboxes alive at the same time.", low=1, high=100_000)
    ttl: float = _setting(
        kinds.SECONDS,
        3600.0,
        "Seconds that a sandbox lives unless its caller asks for another time.",
        low=1,
        high=_LONGEST_S,
    )
    max_ttl: float = _setting(
        kinds.SECONDS, 7 * _DAY_S, "Longest time that a sandbox may live, in seconds.", low=1, high=_LONGEST_S
    )
    idle_timeout: float = _setting(
        kinds.SECONDS,
        900.0,
        "Seconds without work after which a sandbox ends, unless its caller asks for another time.",
        low=1,
        high=_LONGEST_S,
    )
    max_upload: int = _setting(kinds.SIZE, 1 << 30, "Largest file that callers may upload.", low=0, high=1 << 44)
    max_body: int = _setting(kinds.SIZE, 16 << 20, "Largest JSON body of a request.", low=1 << 10, high=1 << 30)
    persistent_age: float = _setting(
        kinds.SECONDS,
        30 * _DAY_S,
        "Seconds after which a persistent workspace that nobody opens is removed.",
        low=60,
        high=_LONGEST_S,
    )
    max_runs_kept: int = _setting(kinds.WHOLE, 100_000, "Runs to keep in the database.", low=1, high=1_000_000_000)
    max_audit_kept: int = _setting(
        kinds.WHOLE, 1_000_000, "Entries to keep in the audit log.", low=1, high=1_000_000_000
    )
    mounts: tuple[str, ...] = _setting(
        kinds.FOLDERS, (), "Folders of the host that callers may mount into sandboxes, including their subfolders."
    )
    max_network: tuple[str, ...] = _setting(
        kinds.NETWORK, ("public",), "What sandboxes may reach at most: none, public, packages, or network rules."
    )
    max_network_rate: int = _setting(
        kinds.SIZE,
        0,
        "Bytes per second that each sandbox may exchange with the network; 0 is no limit.",
        low=0,
        high=1 << 40,
        shown="no limit",
    )
    sharing: str = _setting(
        kinds.TEXT,
        "local",
        "Who may open shared snapshots: nobody, browsers on this host, or everyone who has the link.",
        choices=("off", "local", "everyone"),
    )
    rate_cpu_hour: float = _setting(kinds.NUMBER, 0.0, "Price of an hour of CPU time, for estimates.", low=0, high=1e6)
    rate_memory_gb_hour: float = _setting(
        kinds.NUMBER, 0.0, "Price of a GB of memory for an hour, for estimates.", low=0, high=1e6
    )
    currency: str = _setting(kinds.CURRENCY, "USD", "Currency of these prices.")

    @property
    def database(self) -> str:
        """The address of the database: the configured one, or SQLite in the data folder."""
        return self.database_url or f"sqlite:///{self.data_dir / 'cloche.db'}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this host can reach the server."""
        return _is_loopback(self.host)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration with the source of each value."""

    value: Configuration
    sources: dict[str, str]
    """By field: `default`, `file PATH`, `environment CLOCHE_X` or `flag --x`."""
    strangers: dict[str, str]
    """Environment variables that are almost settings, each with the one that was probably meant."""

    def shown(self) -> dict[str, Any]:
        """Return the effective values as plain data without secrets, ready to be printed."""
        values = {name: getattr(self.value, name) for name in FIELDS}
        values["database_url"] = masked(self.value.database)
        return {name: _plain(value) for name, value in values.items()}


# The bounds of limits come last: `fields` has those of the base class first.
FIELDS: dict[str, Field[Any]] = {
    each.name: each for each in sorted(fields(Configuration), key=lambda each: "limit" in each.metadata)
}
# Variables that are no settings of the server: settings.py reads them, and CLOCHE_CONFIG names the file.
_OTHER_VARIABLES = frozenset(f"CLOCHE_{name.upper()}" for name in ("config", *Settings._fields) if name != "one_run")


def load(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> Loaded:
    """Return the effective configuration: a flag beats the environment, then comes the file, then the default."""
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {"data_dir": default_data_dir(environ)}
    sources = dict.fromkeys(FIELDS, "default")
    for name, source, value in (*_from_file(file, environ), *_from_environment(environ), *_from_flags(flags or {})):
        values[name], sources[name] = value, source
    loaded = Loaded(Configuration(**values), sources, _strangers(environ))
    _check_together(loaded)
    return loaded


def load_arguments(arguments: argparse.Namespace) -> Loaded:
    """Return the effective configuration for the arguments of a parser that `add_flags` prepared."""
    given = {name: getattr(arguments, name, None) for name in FIELDS}
    return load(given, file=Path(arguments.config) if arguments.config else None)


def add_flags(parser: argparse.ArgumentParser, names: Iterable[str] = tuple(FIELDS)) -> None:
    """Add an option for each setting, and `--config`."""
    from argparse import BooleanOptionalAction

    parser.add_argument("--config", metavar="FILE", help="read settings from this TOML file")
    for name in names:
        kind: Kind = FIELDS[name].metadata["kind"]
        words = f"{FIELDS[name].metadata['meaning']} Default: {default_text(name)}."
        how: dict[str, Any] = {"dest": name, "default": None, "help": words.replace("%", "%%")}
        if kind is kinds.FLAG:
            how["action"] = BooleanOptionalAction
        else:
            how["metavar"] = "|".join(FIELDS[name].metadata.get("choices", ())) or kind.placeholder
        if kind in (kinds.HOSTS, kinds.ORIGINS, kinds.FOLDERS, kinds.NETWORK):
            how["action"] = "append"
            how["help"] += " Can be repeated."
        parser.add_argument(flag_of(name), **how)


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return f"CLOCHE_{name.upper()}"


def flag_of(name: str) -> str:
    """The command-line option of a setting."""
    return f"--{name.replace('_', '-')}"


def default_text(name: str) -> str:
    """Return the default of a setting as a person would write it."""
    declared = FIELDS[name]
    return str(declared.metadata.get("shown") or value_text(name, declared.default))


def value_text(name: str, value: Any) -> str:
    """Return the value of a setting as a person would write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if FIELDS[name].metadata["kind"] is kinds.SIZE:
        return _size_text(value)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


# Where values come from


def _from_file(file: Path | None, environ: Mapping[str, str]) -> list[tuple[str, str, Any]]:
    path, named_by = _file(file, environ)
    if path is None:
        return []
    source = f"file {path}"
    found = []
    for name, given in _toml(path, named_by).items():
        if name not in FIELDS:
            raise Misconfigured(f"There is no setting {name!r} ({source}).", hint=_meant(name, FIELDS))
        found.append((name, source, _converted(name, source, given, FIELDS[name].metadata["kind"].from_file)))
    return found


def _from_environment(environ: Mapping[str, str]) -> list[tuple[str, str, Any]]:
    found = []
    for name, declared in FIELDS.items():
        text = environ.get(variable_of(name), "")
        if text:
            source = f"environment {variable_of(name)}"
            found.append((name, source, _converted(name, source, text, declared.metadata["kind"].from_text)))
    return found


def _from_flags(flags: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    found = []
    for name, given in flags.items():
        if name not in FIELDS:
            raise Misconfigured(f"There is no setting {name!r} (flag {flag_of(name)}).", hint=_meant(name, FIELDS))
        if given is None:
            continue
        kind: Kind = FIELDS[name].metadata["kind"]
        source = f"flag {'--no-' + flag_of(name)[2:] if given is False else flag_of(name)}"
        text = ",".join(map(str, given)) if isinstance(given, list | tuple) else given
        text = str(text) if isinstance(text, Path) else text
        convert = kind.from_text if isinstance(text, str) else kind.from_file
        found.append((name, source, _converted(name, source, text, convert)))
    return found


def _strangers(environ: Mapping[str, str]) -> dict[str, str]:
    from cloche.nearest import nearest

    known = {variable_of(name) for name in FIELDS} | _OTHER_VARIABLES
    # Other programs may use the prefix as well, so only names that are almost a setting count.
    near = {name: nearest(name, known, likeness=0.85) for name in environ if name.startswith("CLOCHE_")}
    return {name: meant[0] for name, meant in near.items() if meant and name not in known}


def _file(file: Path | None, environ: Mapping[str, str]) -> tuple[Path | None, str]:
    """The configuration file, and what named it."""
    if file is not None:
        return file, "flag --config"
    if environ.get("CLOCHE_CONFIG"):
        return Path(environ["CLOCHE_CONFIG"]).expanduser(), "environment CLOCHE_CONFIG"
    usual = _xdg(environ, "XDG_CONFIG_HOME", ".config") / "cloche" / "config.toml"
    return (usual, "default") if usual.is_file() else (None, "")


def _toml(path: Path, named_by: str) -> dict[str, Any]:
    import tomllib

    try:
        with path.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as problem:
        raise Misconfigured(
            f"The configuration file {path} ({named_by}) cannot be read: {problem.strerror}.",
            hint="Name a file that exists, or leave it out.",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise Misconfigured(
            f"The configuration file {path} is not TOML: {problem}.", hint="Correct the file at that place."
        ) from None


def _xdg(environ: Mapping[str, str], variable: str, usual: str) -> Path:
    given = environ.get(variable, "")
    if given.startswith("/"):  # the specification says to ignore a path that is not absolute
        return Path(given)
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / usual


# What values have to be


def _converted(name: str, source: str, given: Any, convert: Callable[[Any], Any]) -> Any:
    about = FIELDS[name].metadata
    shown = _as_given(name, given)
    try:
        value = convert(given)
    except (ValueError, OverflowError):
        raise Misconfigured(
            f"{name} = {shown} ({source}) is not {about['kind'].name}.", hint=f"The default is {default_text(name)}."
        ) from None
    choices, low, high = about.get("choices"), about.get("low"), about.get("high")
    if choices and value not in choices:
        raise Misconfigured(f"{name} = {shown} ({source}) is not one of {', '.join(choices)}.", _meant(value, choices))
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        raise Misconfigured(
            f"{name} = {shown} ({source}) is out of range.", hint=f"Write {about['kind'].name} {_range(name)}."
        )
    return value


def _as_given(name: str, given: Any) -> str:
    if FIELDS[name].metadata["kind"] is kinds.DATABASE and "://" not in str(given):
        return "…"  # it may contain a password anywhere
    text = repr(masked(given) if isinstance(given, str) else given)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _check_together(loaded: Loaded) -> None:
    value, sources = loaded.value, loaded.sources
    if not value.auth and not value.is_loopback:
        raise Misconfigured(
            f"auth = no ({sources['auth']}) would let everyone who can reach {value.host!r} ({sources['host']}) run "
            "code here.",
            hint="Listen on 127.0.0.1, or require keys.",
        )
    if value.ttl > value.max_ttl:
        raise Misconfigured(
            f"ttl = {value.ttl:g} ({sources['ttl']}) is more than max_ttl = {value.max_ttl:g} ({sources['max_ttl']}).",
            hint="Lower the one or raise the other.",
        )


def _is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _meant(name: str, valid: Iterable[str]) -> str:
    from cloche.nearest import did_you_mean

    names = list(valid)
    return did_you_mean(name.replace("-", "_"), names, f"Choose one of {', '.join(names)}.")


def _range(name: str) -> str:
    low, high = FIELDS[name].metadata.get("low"), FIELDS[name].metadata.get("high")
    return f"from {value_text(name, low)} to {value_text(name, high)}"


def _size_text(value: int) -> str:
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if value and value % (1 << shift) == 0:
            return f"{value >> shift}{unit}"
    return str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value
