"""The record of a tree: folders and files as plain tuples, which are small and quick to load."""

from __future__ import annotations

import errno
import marshal
import stat as modes

TYPE_CHECKING = False
if TYPE_CHECKING:
    # A folder: its parent's number, name, mode, mtime (None: it could not be read, so its entries are left alone).  Its
    # own number is its index in the list; number 0 is the top.
    Folder = tuple[int, str, int, int | None]
    # A file: its folder's number, name, mode with kind, mtime, size, content (a link's target; None for a socket, a
    # fifo, or a file that could not be read).
    File = tuple[int, str, int, int, int, str | None]
    Tree = tuple[list[Folder], list[File]]
    Entries = dict[str, int | File]  # of one folder, by name: a subfolder's number, or a file

MAX_ENTRIES = 100_000  # of one version
_MAX_PATH = 4096  # characters of a path in a reply; nesting can go deeper
_LENGTH = 8  # bytes in front of the content ids, for their length


def too_many(most: int) -> OSError:
    return OSError(errno.E2BIG, f"more than {most:,} files: too many for a version")


def entries(tree: Tree) -> list[Entries]:
    """Return the entries of each folder."""
    folders, files = tree
    below: list[Entries] = [{} for _ in folders]
    for number, (parent, name, _, _) in enumerate(folders):
        if number:
            below[parent][name] = number
    for file in files:
        below[file[0]][file[1]] = file
    return below


def path(folders: list[Folder], parent: int, name: str) -> str:
    """Return the path of an entry from the top; only the end of a very deep one."""
    whole = name
    while parent and len(whole) < _MAX_PATH:
        parent, name = folders[parent][:2]
        whole = f"{name}/{whole}"
    return f"…/{whole}" if parent else whole


def packed(tree: Tree) -> bytes:
    """Encode a tree, with the ids of its contents first, so that they can be read alone."""
    contents = {content for _, _, mode, _, _, content in tree[1] if content is not None and modes.S_ISREG(mode)}
    ids = marshal.dumps(contents)
    return len(ids).to_bytes(_LENGTH, "big") + ids + marshal.dumps(tree)


def unpacked(data: bytes) -> Tree:
    """Decode a tree."""
    start = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
    tree: Tree = marshal.loads(memoryview(data)[start:])
    return tree


def contents_in(data: bytes) -> set[str]:
    """Return the content ids of an encoded tree."""
    ids: set[str] = marshal.loads(memoryview(data)[_LENGTH:])
    return ids
