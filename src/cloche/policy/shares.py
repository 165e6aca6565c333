"""How keys share places that cannot be taken back: runs under way and living sandboxes (docs/decisions/0020).

A run ends when it wants to, so a fair share for a newcomer must be free before the newcomer comes.  While some keys
hold no place, another key may therefore hold at most twice as many places as it leaves free: one busy key gets two
thirds of all places, the next one two thirds of the rest, and so on.  The last free places are for keys that hold none.
"""

from __future__ import annotations

_PER_FREE_PLACE = 2
_FEW = 8  # with fewer places than this, none is kept free for keys that are made later


def may_take(own: int, free: int, total: int, keys: int | None, holding: int) -> bool:
    """Return whether a key that holds `own` places may take one of the `free` ones.

    `holding` of the server's `keys` hold a place.  When all do, each may have an equal share, and one place is left for
    a key that is made later.  A server that requires no key (None) has one caller, who may take all.
    """
    if free < 1 or own == 0 or keys is None:
        return free > 0
    left = free - 1
    most = _PER_FREE_PLACE * left
    if holding >= keys and (left > 0 or total < _FEW):
        most = max(most, -(-total // holding))  # rounded up, so that no place stays empty
    return own < most
