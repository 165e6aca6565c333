"""A Java kernel starts from the newest prepared archive that fits its JDK."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloche.kernels import java


def test_the_newest_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "PREPARED", str(tmp_path))
    for name in ("java-2-aaaa", "java-3-bbbb", "java-10-cccc", "go-11-dddd"):
        (tmp_path / name).mkdir()
    assert [Path(place).name for place in java._prepared_folders()] == ["java-10-cccc", "java-3-bbbb", "java-2-aaaa"]
