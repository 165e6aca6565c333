"""The kinds of settings of the server: how a value is written as text and in a file, and how it is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloche.errors import InvalidRun
from cloche.model.limits import size
from cloche.model.network import Network


@dataclass(frozen=True, slots=True)
class Kind:
    """How the values of a setting are written and read."""

    name: str
    placeholder: str
    from_text: Callable[[str], Any]
    from_file: Callable[[Any], Any]
    """Raises ValueError for a value of a wrong type."""


def _same(*types: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if type(value) not in types:
            raise ValueError
        return types[0](value)

    return convert


def _yes_or_no(text: str) -> bool:
    if text.lower() not in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        raise ValueError
    return text.lower() in ("1", "true", "yes", "on")


def _bytes(value: Any) -> int:
    try:
        return size("", value)
    except InvalidRun:
        raise ValueError from None


def _list_of(item: Callable[[str], Any]) -> tuple[Callable[[str], Any], Callable[[Any], Any]]:
    def from_text(text: str) -> tuple[Any, ...]:
        return tuple(item(part.strip()) for part in text.split(",") if part.strip())

    def from_file(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise ValueError
        return tuple(item(part) for part in value)

    return from_text, from_file


def _path(text: Any) -> Path:
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:  # `~nobody`
        raise ValueError from None


def _folder(text: str) -> str:
    if not text.startswith(("/", "~")):
        raise ValueError
    return str(_path(text))


def _address(text: Any) -> str:
    if not isinstance(text, str) or not re.fullmatch(r"[\w.:%-]+", text, re.ASCII):
        raise ValueError
    return text


def _host_name(text: str) -> str:
    if not re.fullmatch(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?", text, re.ASCII):
        raise ValueError
    return text.lower()


def _domain(text: Any) -> str:
    if not isinstance(text, str) or not re.fullmatch(r"[\w-]+(?:\.[\w-]+)*", text, re.ASCII):
        raise ValueError
    return text.lower()


def _origin(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s*@]+", text):
        raise ValueError
    return text


def _database(text: Any) -> str:
    if not isinstance(text, str) or not re.match(r"(?:sqlite|postgres(?:ql)?)(?:\+\w+)?://", text):
        raise ValueError
    return text


def _currency(text: Any) -> str:
    if not isinstance(text, str) or not re.fullmatch(r"[A-Z]{3}", text):
        raise ValueError
    return text


def _network_rules(value: Any) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError
    try:
        return () if texts == ["none"] else Network(allow=texts).allow
    except InvalidRun:
        raise ValueError from None


def _network_text(text: str) -> tuple[str, ...]:
    return _network_rules([part.strip() for part in text.split(",") if part.strip()])


TEXT = Kind("a text", "TEXT", str, _same(str))
WHOLE = Kind("a whole number", "N", int, _same(int))
SECONDS = Kind("a number of seconds", "SECONDS", float, _same(float, int))
NUMBER = Kind("a number", "NUMBER", float, _same(float, int))
CURRENCY = Kind("three letters like 'EUR'", "CODE", _currency, _currency)
SIZE = Kind("a number of bytes or a text like '512M'", "SIZE", _bytes, _bytes)
FLAG = Kind("yes or no (in a file: true or false)", "", _yes_or_no, _same(bool))
ADDRESS = Kind("an address or a host name", "ADDRESS", _address, _address)
PATH = Kind("a path", "PATH", _path, _path)
DOMAIN = Kind("a domain", "DOMAIN", _domain, _domain)
DATABASE = Kind("a URL of sqlite:// or postgresql://", "URL", _database, _database)
HOSTS = Kind("a list of host names like 'cloche.example.org'", "HOST", *_list_of(_host_name))
ORIGINS = Kind("a list of origins like 'https://app.example.org', without a path", "ORIGIN", *_list_of(_origin))
FOLDERS = Kind("a list of absolute paths", "FOLDER", *_list_of(_folder))
NETWORK = Kind("'none', or a list of network rules like '*.example.org'", "RULE", _network_text, _network_rules)


def masked(url: str) -> str:
    """Return a database's address without its password."""
    url = re.sub(r"(://[^:/@?]*):.*@", r"\1:***@", url)
    return re.sub(r"((?:password|passwd|secret)=)[^&]*", r"\1***", url, flags=re.IGNORECASE)
