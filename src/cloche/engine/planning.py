"""Finds the files that belong to a program: the project from which its language plans the run."""

from __future__ import annotations

from _collections_abc import Iterable, Mapping

from cloche.errors import FileMissing
from cloche.languages.language import HOME, Language, Project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.engine.sandbox import AsyncHostSandbox

MAX_TEXT = 1 << 20  # bytes of all other files together that are read for its language
MAX_CODE = 256 << 10  # characters of an entry that its language looks at: some need a second for a million
MAX_TEXTS = 200  # files that are read for its language
_DEPTH = 6  # folders below the root whose files are part of a project


async def project_of(
    box: AsyncHostSandbox,
    language: Language,
    entry: str,
    text: str | None,
    files: Iterable[str] | None,
    snippet: bool,
    check: str,
) -> Project:
    """Return the project around an entry: the files that the caller names, or the files in the sandbox."""
    entry = entry if entry.startswith("/") else f"{HOME}/{entry}"
    folder = entry.rpartition("/")[0]
    is_given = text is not None
    if text is not None and len(text) > MAX_CODE:
        text = None
    if snippet and files is None:
        own = frozenset((entry.rpartition("/")[2],))
        return Project(entry, text, folder, own, True, check, box.limits.cpu, box.limits.memory_bytes)
    if files is None:
        root = await _root(box, language, folder)
        known = {found.path for found in await box.files.list(root, _DEPTH) if found.kind == "file"}
    else:
        known = {path if path.startswith("/") else f"{HOME}/{path}" for path in files}
        root = _nearest(language, folder, known)
    if not is_given and (await box.files.stat(entry)).size <= MAX_CODE:
        text = (await box.files.read(entry)).decode("utf-8", "surrogateescape")
    inside = frozenset(path.removeprefix(f"{root}/") for path in known | {entry} if path.startswith(f"{root}/"))
    own_name = entry.removeprefix(f"{root}/")
    known_texts = {} if text is None else {own_name: text}  # code may not be in its file yet
    texts = await _texts(box, root, language, inside if text is not None else inside - {own_name}, known_texts)
    return Project(entry, text, root, inside, snippet, check, box.limits.cpu, box.limits.memory_bytes, texts)


async def _texts(
    box: AsyncHostSandbox, root: str, language: Language, names: Iterable[str], known: Mapping[str, str]
) -> dict[str, str]:
    """Read the files that a language needs to see, except those that are too long to be manifests or sources."""
    endings = tuple(name for name in language.reads if name.startswith("."))
    wanted = [name for name in sorted(names) if name in language.reads or (endings and name.endswith(endings))]
    texts, room = {name: known[name] for name in wanted if name in known}, MAX_TEXT
    for name in [name for name in wanted if name not in known][:MAX_TEXTS]:
        data = await box.files.read(f"{root}/{name}", room + 1)
        if len(data) <= room:
            texts[name] = data.decode("utf-8", "surrogateescape")
            room -= len(data)
    return texts


def _nearest(language: Language, folder: str, known: set[str]) -> str:
    """Return the nearest folder upwards with a manifest; otherwise the entry's own folder, or the one above that."""
    place = folder
    while place.startswith(HOME):
        if any(f"{place}/{name}" in known for name in language.manifests):
            return place
        place = place.rpartition("/")[0]
    return _whole(language, folder)


async def _root(box: AsyncHostSandbox, language: Language, folder: str) -> str:
    place = folder
    while language.manifests and place.startswith(HOME):
        try:
            names = {found.path for found in await box.files.list(place)}
        except FileMissing:
            names = set()
        if any(f"{place}/{name}" in names for name in language.manifests):
            return place
        place = place.rpartition("/")[0]
    return _whole(language, folder)


def _whole(language: Language, folder: str) -> str:
    above, _, name = folder.rpartition("/")
    return above if name in language.source_folders and above.startswith(HOME) else folder
