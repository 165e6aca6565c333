"""Encodes facts as lines of the journal.

A line is JSON.  The result of a run, which is JSON already and can be large, follows after a tab.
"""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any, get_args

from cloche.json_text import json_to_keep
from cloche.model.records import AuditRecord, ChargeRecord, Fact, RunRecord, SandboxRecord
from cloche.store.upserts import NAMES

_KINDS: dict[str, type[Fact]] = {
    "run": RunRecord,
    "sandbox": SandboxRecord,
    "charge": ChargeRecord,
    "audit": AuditRecord,
}
_WORDS = {kind: word for word, kind in _KINDS.items()}
_VALUES = {kind: attrgetter(*NAMES[kind]) for kind in get_args(Fact)}
_decode = json.JSONDecoder().decode


def encode(fact: Fact) -> bytes:
    """Return one line, with its newline."""
    kind = type(fact)
    values = dict(zip(NAMES[kind], _VALUES[kind](fact), strict=True))
    values["fact"] = _WORDS[kind]
    result = values.get("result")
    if result is None or "\n" in result:
        return json_to_keep(values).encode("ascii") + b"\n"
    del values["result"]
    return b"%b\t%b\n" % (json_to_keep(values).encode("ascii"), result.encode("utf-8", "surrogatepass"))


def decode(line: bytes) -> Fact | None:
    """Return the fact in a line, or None if the line is damaged."""
    head, tab, result = line.removesuffix(b"\n").partition(b"\t")
    try:
        values: dict[str, Any] = _decode(head.decode("ascii"))
        if tab:
            values["result"] = result.decode("utf-8", "surrogatepass")
        kind = _KINDS[values.pop("fact")]
        fact = kind(**values)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return fact if type(fact.id) is str else None
