"""Addresses of files: `cloche://sessions/{session}/files/{path}`, and what kind of contents a name promises."""

from __future__ import annotations

from mimetypes import guess_type
from urllib.parse import quote, unquote_to_bytes, urlsplit

from cloche.errors import InvalidRun

TEMPLATE = "cloche://sessions/{session}/files/{+path}"
_ROOT = "/sandbox/"
# What the standard library does not know, or knows otherwise on some hosts.
_KINDS = {
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".py": "text/x-python",
    ".ts": "text/x-typescript",
    ".js": "text/javascript",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".ipynb": "application/x-ipynb+json",
    ".parquet": "application/vnd.apache.parquet",
    ".webp": "image/webp",
    ".log": "text/plain",
    ".sh": "text/x-shellscript",
    ".toml": "application/toml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
_TEXTS = ("application/json", "application/xml", "application/javascript", "application/toml", "application/yaml")


def uri_of(session: str, path: str) -> str:
    """The address of a file; what is below /sandbox is told relative to it, all else by its absolute path."""
    shown = path.removeprefix(_ROOT) if path.startswith(_ROOT) else path
    leading = "%2F" if shown.startswith("/") else ""
    raw = shown.lstrip("/").encode("utf-8", "surrogateescape")
    return f"cloche://sessions/{quote(session, safe='')}/files/{leading}{quote(raw)}"


def file_at(uri: str) -> tuple[str, str]:
    """The session and the path of an address."""
    parts = urlsplit(uri)
    session, files, path = (*parts.path.lstrip("/").split("/", 2), "", "")[:3]
    if parts.scheme != "cloche" or parts.netloc != "sessions" or files != "files" or not session or not path:
        raise InvalidRun(f"{uri[:200]!r} is not the address of a file.", hint=f"Addresses look so: {TEMPLATE}")
    return _plain(session), _plain(path)


def kind_of(path: str) -> str:
    """The MIME type that a file's name promises."""
    ending = path[path.rfind(".") :].lower() if "." in path.rpartition("/")[2] else ""
    return _KINDS.get(ending) or guess_type(path)[0] or "application/octet-stream"


def is_text(kind: str) -> bool:
    """Are such contents for people to read?"""
    return kind.startswith("text/") or kind.endswith(("+json", "+xml", "jsonl")) or kind in _TEXTS


def _plain(part: str) -> str:
    return unquote_to_bytes(part).decode("utf-8", "surrogateescape")
