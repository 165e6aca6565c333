"""What tests of the engine share: each runs in this process, and over HTTP."""

from __future__ import annotations

from tests.places import place, pytest_collection_modifyitems

__all__ = ["place", "pytest_collection_modifyitems"]
