"""Versions are compared as PEP 440 and npm say; for Python, pytest's own `packaging` is the reference."""

from __future__ import annotations

import random

import pytest
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from cloche.model import npm_versions, python_versions


def some_version(chance: random.Random) -> str:
    version = ".".join(str(chance.randint(0, 3)) for _ in range(chance.randint(1, 4)))
    version = f"1!{version}" if chance.random() < 0.05 else version
    for likelihood, endings in (
        (0.3, ["a1", "rc2", "-beta.1", ".pre", "c1"]),
        (0.2, [".post1", "-2", ".rev3"]),
        (0.2, [".dev1", "dev"]),
        (0.1, ["+abc.1", "+1"]),
    ):
        version += chance.choice(endings) if chance.random() < likelihood else ""
    return version


def test_pythons_versions_are_in_the_order_of_packaging() -> None:
    chance = random.Random(440)
    for _ in range(5000):
        one, other = some_version(chance), some_version(chance)
        first, second = python_versions.version_key(one), python_versions.version_key(other)
        assert first is not None
        assert second is not None
        assert (first < second, first == second) == (Version(one) < Version(other), Version(one) == Version(other))


def test_pythons_bounds_decide_as_packaging_does() -> None:
    chance = random.Random(441)
    outcomes: dict[bool | None, int] = {True: 0, False: 0, None: 0}
    for _ in range(10_000):
        version = some_version(chance)
        bound = ",".join(
            chance.choice(["==", "!=", "<", "<=", ">", ">=", "~="])
            + some_version(chance)
            + chance.choice(["", "", ".*"])
            for _ in range(chance.randint(1, 2))
        )
        try:
            expected: bool | None = SpecifierSet(bound).contains(version, prereleases=True)
        except InvalidSpecifier:
            expected = None
        if expected is not None and python_versions.is_bound(bound) is False:
            assert ".*" in bound  # after a pre-release, which nobody writes
            continue
        found = python_versions.is_within(version, bound) if python_versions.is_bound(bound) else None
        assert found == expected, (version, bound)
        outcomes[expected] += 1
    assert min(outcomes.values()) > 500


@pytest.mark.parametrize("text", ["", "one", "1..2", "1.0+", "1.0 2", "1" * 300, ">=1", "\u0661.0"])
def test_what_is_no_version_is_not_taken_for_one(text: str) -> None:
    assert python_versions.version_key(text) is None
    assert npm_versions.version_key(text) is None
    assert not python_versions.is_within(text, ">=0")
    assert not npm_versions.is_within(text, "*")


@pytest.mark.parametrize(
    ("bound", "inside", "outside"),
    [
        ("^1.2.3", ["1.2.3", "1.9.0"], ["1.2.2", "2.0.0", "2.0.0-0", "1.2.3-rc.1"]),
        ("^0.2.3", ["0.2.3", "0.2.9"], ["0.3.0", "0.2.2"]),
        ("^0.0.3", ["0.0.3"], ["0.0.4"]),
        ("^0.0", ["0.0.9"], ["0.1.0"]),
        ("~1.2.3", ["1.2.9"], ["1.3.0"]),
        ("~1", ["1.9.9"], ["2.0.0"]),
        ("~> 1.2", ["1.2.0"], ["1.3.0"]),
        ("1.x", ["1.0.0", "1.9.0"], ["2.0.0", "0.9.0"]),
        ("1.2", ["1.2.7"], ["1.3.0"]),
        ("*", ["0.0.0", "9.0.0-rc"], []),
        ("", ["1.0.0"], []),
        (">1", ["2.0.0"], ["1.9.9"]),
        (">1.2.3", ["1.2.4"], ["1.2.3"]),
        ("<=1.2", ["1.2.9"], ["1.3.0"]),
        ("<2", ["1.9.9"], ["2.0.0", "2.0.0-rc.1"]),
        (">= 1 < 3", ["1.0.0", "2.9.0"], ["3.0.0"]),
        (">=1,<3", ["1.0.0"], ["3.0.0"]),
        ("1.2 - 2.3", ["1.2.0", "2.3.9"], ["2.4.0", "1.1.9"]),
        ("1.2.3 - 2.3.4", ["2.3.4"], ["2.3.5"]),
        ("4 || >=6 <7", ["4.1.0", "6.0.0"], ["5.0.0", "7.0.0"]),
        ("=1.2.3", ["1.2.3", "1.2.3+build"], ["1.2.4"]),
        ("<*", [], ["1.0.0"]),
    ],
)
def test_npms_ranges(bound: str, inside: list[str], outside: list[str]) -> None:
    assert [version for version in inside if not npm_versions.is_within(version, bound)] == []
    assert [version for version in outside if npm_versions.is_within(version, bound)] == []


def test_npms_prereleases_are_in_order() -> None:
    prereleases = ["0", "alpha", "alpha.1", "alpha.beta", "beta.2", "beta.11", "rc.1"]
    order = [*(f"1.0.0-{each}" for each in prereleases), "1.0.0", "1.0.1"]
    keys = [npm_versions.version_key(version) for version in order]
    assert keys == sorted(keys, key=lambda key: key or (0, 0, 0, ()))
    assert len(set(keys)) == len(order)


@pytest.mark.parametrize("bound", ["latest", "1.2.3.4", "git+x", ">=", "1 -", "x.1", "1 - >2", "~=1.0", "==1.*,!=1.5"])
def test_what_npm_does_not_read_is_no_range(bound: str) -> None:
    assert not npm_versions.is_range(bound)
    with pytest.raises(ValueError, match="is not a range"):
        npm_versions.is_within("1.0.0", bound)
