"""The URIs of files, `cloche://sessions/{session}/files/{path}`, and the MIME types that file names suggest."""

from __future__ import annotations

from mimetypes import guess_type
from urllib.parse import quote, unquote_to_bytes, urlsplit

from cloche.errors import InvalidRun

TEMPLATE = "cloche://sessions/{session}/files/{+path}"
_ROOT = "/sandbox/"
# Types that the standard library does not know, or that differ between hosts.
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
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")  # types that models can look at
_TEXTS = ("application/json", "application/xml", "application/javascript", "application/toml", "application/yaml")


def uri_of(session: str, path: str) -> str:
    """Return the URI of a file.  A path below /sandbox is given relative to it, any other path is absolute."""
    shown = path.removeprefix(_ROOT) if path.startswith(_ROOT) else path
    leading = "%2F" if shown.startswith("/") else ""
    raw = shown.lstrip("/").encode("utf-8", "surrogateescape")
    return f"cloche://sessions/{quote(session, safe='')}/files/{leading}{quote(raw)}"


def file_at(uri: str) -> tuple[str, str]:
    """Return the session and the path in a URI."""
    parts = urlsplit(uri)
    session, files, path = (*parts.path.lstrip("/").split("/", 2), "", "")[:3]
    if parts.scheme != "cloche" or parts.netloc != "sessions" or files != "files" or not session or not path:
        raise InvalidRun(f"{uri[:200]!r} is not the address of a file.", hint=f"Addresses have the form {TEMPLATE}")
    return _plain(session), _plain(path)


def kind_of(path: str) -> str:
    """Return the MIME type that a file's name suggests."""
    ending = path[path.rfind(".") :].lower() if "." in path.rpartition("/")[2] else ""
    return _KINDS.get(ending) or guess_type(path)[0] or "application/octet-stream"


def is_text(kind: str) -> bool:
    """Return whether files of this MIME type are text."""
    return kind.startswith("text/") or kind.endswith(("+json", "+xml", "jsonl")) or kind in _TEXTS


def _plain(part: str) -> str:
    return unquote_to_bytes(part).decode("utf-8", "surrogateescape")
