"""Names that are nearly popular ones are recognised, popular names are not, and a name costs next to nothing."""

from __future__ import annotations

import random
import string
import time

import pytest

from cloche.packages.lookalikes import meant_name, popular_names

ECOSYSTEMS = ["python", "javascript"]


@pytest.mark.parametrize(
    ("ecosystem", "name", "meant"),
    [
        ("python", "reqeusts", "requests"),
        ("python", "request", "requests"),
        ("python", "requestss", "requests"),
        ("python", "nunpy", "numpy"),
        ("python", "pythondateutil", "python-dateutil"),
        ("python", "scikitlearn", "scikit-learn"),
        ("python", "beautifulsoup", "beautifulsoup4"),
        ("python", "f1ask", "flask"),
        ("python", "torn4do", "tornado"),
        ("python", "urllib", "urllib3"),
        ("javascript", "1odash", "lodash"),
        ("javascript", "momnet", "moment"),
        ("javascript", "cross-env.", "cross-env"),
        ("javascript", "@type/node", "@types/node"),
        ("javascript", "cornmander", "commander"),
        ("javascript", "crossenv", "cross-env"),
    ],
)
def test_the_meant_name(ecosystem: str, name: str, meant: str) -> None:
    assert meant_name(ecosystem, name) == meant


@pytest.mark.parametrize("name", ["my-own-library", "acme-internal", "x", "", "zzzzzzzz", "a" * 10_000, "torch-acme"])
def test_other_names_are_left_alone(name: str) -> None:
    assert [meant_name(ecosystem, name) for ecosystem in ECOSYSTEMS] == [None, None]


@pytest.mark.parametrize("ecosystem", ECOSYSTEMS)
def test_no_popular_name_is_taken_for_another(ecosystem: str) -> None:
    names = popular_names(ecosystem)
    assert len(names) >= (1000 if ecosystem == "python" else 500)
    assert [name for name in names if meant_name(ecosystem, name) is not None] == []


@pytest.mark.parametrize("ecosystem", ECOSYSTEMS)
def test_every_slip_of_a_finger_is_recognised(ecosystem: str) -> None:
    chance = random.Random(5)
    known = set(popular_names(ecosystem))
    for name in known:
        if len(name) < 4:
            continue
        place, letter = chance.randrange(len(name)), chance.choice(string.ascii_lowercase)
        slips = {
            name[:place] + name[place + 1 :],
            name[:place] + letter + name[place:],
            name[:place] + letter + name[place + 1 :],
            name[:place] + name[place : place + 2][::-1] + name[place + 2 :],
        }
        assert [slip for slip in slips - known if meant_name(ecosystem, slip) is None] == []


def test_a_name_takes_less_than_a_millisecond() -> None:
    names = ["".join(random.Random(n).choices(string.ascii_lowercase, k=20)) for n in range(500)]
    meant_name("python", "ready")
    begin = time.process_time()
    for name in [*names, "a" * 100]:
        meant_name("python", name)
    assert (time.process_time() - begin) / len(names) < 0.001
