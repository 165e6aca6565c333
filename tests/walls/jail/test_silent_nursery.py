"""A nursery that no longer answers: its sandboxes are lost, and nobody takes that for an answer."""

from __future__ import annotations

import os
import signal

import pytest
from tests.walls.jail.test_standing_claims import nurseries, nursery_of  # noqa: F401

import cloche
from cloche.blocking.walls import leash
from cloche.blocking.walls.jail.wall import Jail
from cloche.walls.jail.nursery_client import Nurseries

pytestmark = pytest.mark.usefixtures("jail")


def test_usage_that_cannot_be_measured_is_no_usage_of_nothing(
    nurseries: Nurseries,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with cloche.Sandbox(wall=Jail(nurseries)) as box:
        assert box.usage().memory > 0
        monkeypatch.setattr(leash, "_ANSWER_S", 0.1)
        os.kill(nursery_of(nurseries, "sessions"), signal.SIGSTOP)
        try:
            with pytest.raises(cloche.Gone, match="counts its resources"):
                box.usage()
        finally:
            os.kill(nursery_of(nurseries, "sessions"), signal.SIGCONT)
