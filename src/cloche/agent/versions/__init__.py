"""Versions of a folder's files, used by checkpoints: take, compare, restore, copy.

Each call runs in a short-lived child of the agent, one at a time, and keeps its state only in the store:

    versions.py       the operations
    store.py          the folder that holds everything; tree.py: the record of a version
    content_store.py  the contents of files, each stored once; sparse_data.py: reading and writing them without holes
    index.py          the known contents of unchanged files, which need not be read again
    mappings.py       the files that can change without a trace
    take.py           from a tree into the store
    compare.py        a tree against a version
    restore.py        from a version into a tree; remove.py: obstacles
    tree_walk.py      walking a tree; permissions.py: even where the owner lacks permissions

Programs share the tree with us and may change it at any moment.  So everything is reached by descriptor, one folder at
a time, no link is followed, nothing waits, and a problem with one file does not stop the others.  Other file systems
mounted in the tree are not part of it.  Sockets stay where they are, but cannot be created again.
"""

from cloche.agent.versions.mappings import mapped
from cloche.agent.versions.versions import Versions

__all__ = ["Versions", "mapped"]
