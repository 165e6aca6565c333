"""Versions of a folder's files, inside the wall: checkpoints have them taken, compared, restored and copied.

Each call is made in a short-lived child of the agent, one at a time, and keeps nothing but what is in the store:

    versions.py     what can be asked for
    store.py        the folder that all is kept in; tree.py: what it records of a version
    contents.py     the contents of files, each kept once; data.py: reading and writing them, but not their holes
    index.py        what the contents of files are known to be, so that they need not be read again
    mappings.py     the files of which that cannot be known
    take.py         a tree into the store
    compare.py      a tree beside a version
    restore.py      a version into a tree; remove.py: what is in its way
    place.py        where in a tree we are; permissions.py: also where its owner is kept out

Programs share the tree with us and may change it under our hands.  So everything is reached by descriptor, one folder
at a time, no link is followed, nothing waits, and what goes wrong with one file does not stop the others.  Other file
systems mounted in the tree are not part of it.  Sockets are left where they are, but cannot be made again.
"""

from cloche.agent.versions.mappings import mapped
from cloche.agent.versions.versions import Versions

__all__ = ["Versions", "mapped"]
