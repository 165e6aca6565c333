"""Shares: how many an owner can have."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cloche.errors import Refused
from cloche.policy.caller import ANYBODY
from cloche.service import shares


async def test_requests_at_once_do_not_pass_the_bound_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "MOST", 3)
    around: Any = SimpleNamespace(sharing="anybody", note=lambda *_: None)
    known = shares.Shares(tmp_path / "shares", around, around)
    made = await asyncio.gather(
        *(known.create(ANYBODY, f"share {number}", b"{}") for number in range(10)), return_exceptions=True
    )
    assert sum(isinstance(each, Refused) for each in made) == 7
    assert len(known.list(ANYBODY)) == 3
    await known.revoke(ANYBODY, known.list(ANYBODY)[0].id)
    await known.create(ANYBODY, "again", b"{}")
    with pytest.raises(Refused):
        await known.create(ANYBODY, "one too many", b"{}")
