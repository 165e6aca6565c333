"""The service that these tests use."""

from __future__ import annotations

from tests.walls.e2b.service import client, elsewhere

__all__ = ["client", "elsewhere"]
