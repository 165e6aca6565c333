"""What is recorded of a tree: its folders and files in plain tuples, which take little room and no time to read."""

from __future__ import annotations

import errno
import marshal
import stat as modes

TYPE_CHECKING = False
if TYPE_CHECKING:
    # A folder: its parent's number, name, mode, mtime (none: it could not be read, and what is in it is left alone).
    # Its own number is its place in the list; number 0 is the top.
    Folder = tuple[int, str, int, int | None]
    # A file: its folder's number, name, mode with kind, mtime, size, content (of a link: its target; none: a socket or
    # a fifo, or it could not be read).
    File = tuple[int, str, int, int, int, str | None]
    Tree = tuple[list[Folder], list[File]]
    Entries = dict[str, int | File]  # in one folder, by name: a folder's number, or a file

MAX_ENTRIES = 100_000  # in one version
_MAX_PATH = 4096  # characters of a path that is shown; nesting can go deeper
_LENGTH = 8  # bytes before the contents' ids: how long these are


def too_many(most: int) -> OSError:
    """What to say of a tree with more entries than that."""
    return OSError(errno.E2BIG, f"more than {most:,} files: too many for a version")


def entries(tree: Tree) -> list[Entries]:
    """What is in each folder."""
    folders, files = tree
    below: list[Entries] = [{} for _ in folders]
    for number, (parent, name, _, _) in enumerate(folders):
        if number:
            below[parent][name] = number
    for file in files:
        below[file[0]][file[1]] = file
    return below


def path(folders: list[Folder], parent: int, name: str) -> str:
    """The path of an entry, from the top; of one that lies very deep, its end."""
    whole = name
    while parent and len(whole) < _MAX_PATH:
        parent, name = folders[parent][:2]
        whole = f"{name}/{whole}"
    return f"…/{whole}" if parent else whole


def packed(tree: Tree) -> bytes:
    """A tree as bytes: first the ids of its contents, which can be had without the rest."""
    contents = {content for _, _, mode, _, _, content in tree[1] if content is not None and modes.S_ISREG(mode)}
    ids = marshal.dumps(contents)
    return len(ids).to_bytes(_LENGTH, "big") + ids + marshal.dumps(tree)


def unpacked(data: bytes) -> Tree:
    """The tree that was packed."""
    start = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
    tree: Tree = marshal.loads(memoryview(data)[start:])
    return tree


def contents_in(data: bytes) -> set[str]:
    """The ids of the contents of a packed tree."""
    ids: set[str] = marshal.loads(memoryview(data)[_LENGTH:])
    return ids
