"""The nursery's descriptors: without a free one, it would fail in the middle of its work for sandboxes that live."""

from __future__ import annotations

from resource import RLIMIT_NOFILE, getrlimit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sized

_PER_SANDBOX = 18  # its control group, with files that are kept open, its memory watch, workspace, network and sockets
_PER_CLAIM = 3
_FOR_CLAIMS = 8  # an eighth of all: hundreds of claims may wait for a sandbox at the same time
_FOR_OTHERS = 64  # or a quarter


class DescriptorBudget:
    """How many sandboxes and waiting claims this process has descriptors for."""

    def __init__(self) -> None:
        most = getrlimit(RLIMIT_NOFILE)[0]
        for_claims = most // _FOR_CLAIMS
        self._claims = for_claims // _PER_CLAIM
        self._sandboxes = max(2, (most - for_claims - min(_FOR_OTHERS, most // 4)) // _PER_SANDBOX)

    def has_room_for_claim(self, *claims: Sized) -> bool:
        """Whether another claim may wait."""
        return sum(map(len, claims)) < self._claims

    def check(self, sandboxes: Sized, ahead: bool) -> None:
        """Raise OSError if another sandbox is too many; those that nobody has claimed yet may be half of all."""
        if len(sandboxes) >= (self._sandboxes // 2 if ahead else self._sandboxes):
            raise OSError("too few descriptors are left")
