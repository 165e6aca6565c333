"""The policy on packages: what it refuses with which message, what it warns of, and that narrowing never widens."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from cloche.errors import InvalidRun, Refused
from cloche.model.packages import Lock, LockedFile, LockedPackage, Requirement, requirements_of
from cloche.packages.catalogue import Catalogue
from cloche.packages.policy import PackagePolicy, policy_of

NOW = 1_800_000_000.0
DAY = 86_400
MB = 1 << 20
HASH, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
CATALOGUE = Catalogue()


def package(name: str, version: str = "1.0", ecosystem: str = "python", **more: Any) -> LockedPackage:
    size, days, digest = more.pop("size", MB), more.pop("days", 100), more.pop("hash", HASH)
    uploaded = None if days is None else NOW - days * DAY
    file = LockedFile(f"{name}-{version}.whl", "url", digest, size, uploaded)
    return LockedPackage(ecosystem, name, version, file, **more)


def npm(name: str, version: str = "1.0.0", **more: Any) -> LockedPackage:
    return package(name, version, "javascript", **more)


def decide(policy: PackagePolicy, asked: list[str], *packages: LockedPackage) -> list[str]:
    """What the policy says before and after resolving."""
    ecosystem = packages[0].ecosystem if packages else "python"
    requirements = requirements_of(asked, ecosystem)
    warnings = policy.check_request(requirements)
    return warnings + policy.check_lock(requirements, Lock(ecosystem, packages), NOW, CATALOGUE)


REFUSED = [
    # allow and deny
    ({"deny": "evil"}, ["evil"], [], "The package evil is denied (packages.deny).", "Use another package"),
    ({"deny": "Evil_Lib"}, ["EVIL.lib"], [], "The package evil-lib is denied by evil_lib (packages.deny).", "another"),
    ({"deny": "django-*"}, ["django-x"], [], "The package django-x is denied by django-* (packages.deny).", "another"),
    ({"deny": "python:evil"}, ["evil"], [], "The package evil is denied by python:evil (packages.deny).", "another"),
    ({"deny": "npm:@bad/*"}, ["@bad/x"], [npm("@bad/x")], "@bad/x is denied by npm:@bad/* (packages.deny)", "another"),
    ({"deny": "npm:jsonstream"}, ["JSONStream"], [npm("JSONStream")], "JSONStream is denied by npm:jsonstream", "oper"),
    (
        {"deny": "hidden"},
        ["open"],
        [package("open"), package("hidden", "2.0")],
        "The package hidden 2.0 (which another package needs) is denied (packages.deny).",
        "ask the operator",
    ),
    ({"allow": ["numpy", "pandas"]}, ["polars"], [], "polars is not among those that are allowed", "numpy, pandas"),
    (
        {"allow": "none"},
        ["polars"],
        [],
        "polars cannot be installed, because no package is allowed (packages.allow)",
        "every",
    ),
    ({"allow": "npm:*"}, ["polars"], [], "The package polars is not among", "Allowed: npm:*."),
    ({"allow": ["a*"], "deny": ["ab"]}, ["ab"], [], "The package ab is denied (packages.deny).", "another"),
    (
        {"allow": "open"},
        ["open"],
        [package("open"), package("x")],
        "x 1.0 (which another package needs) is not",
        "open",
    ),
    # versions
    (
        {"versions": {"numpy": "<3"}},
        ["numpy"],
        [package("numpy", "3.1")],
        "numpy 3.1 is outside the bound <3",
        "numpy<3",
    ),
    ({"versions": {"numpy": "<3"}}, ["numpy==3.1"], [], "The package numpy 3.1 is outside the bound <3", "numpy<3"),
    (
        {"versions": {"npm:lodash": ">=4.17.21"}},
        ["lodash"],
        [npm("lodash", "4.17.20")],
        "The package lodash 4.17.20 is outside the bound >=4.17.21 (packages.versions).",
        "Ask for another version, as in lodash@>=4.17.21.",
    ),
    (
        {"versions": {"lib-*": ">=2"}},
        ["lib-a"],
        [package("lib-a", "1.9")],
        "lib-a 1.9 is outside the bound >=2",
        "lib-a",
    ),
    (
        {"versions": {"a": "<3"}},
        ["a"],
        [package("a", "strange")],
        "a strange is outside the bound <3",
        "another version",
    ),
    # size and number
    (
        {},
        ["torch"],
        [package("torch", "2.5", size=190 * MB), package("sympy", size=6 * MB)],
        "The packages need 196 MB to download, and 100 MB are allowed (packages.size). "
        "The largest is torch 2.5 with 190 MB.",
        "Ask for fewer or smaller packages",
    ),
    (
        {},
        ["torch"],
        [package("torch", size=190_400_000)],
        "The package torch 1.0 has 181.6 MB, and 100 MB are allowed (packages.size).",
        "or ask the operator",
    ),
    (
        {},
        ["big"],
        [package("big", size=100 * MB + 1)],
        "big 1.0 has 104857601 bytes, and 100 MB are allowed",
        "smaller",
    ),
    (
        {"size": "1M"},
        ["a"],
        [package("a", size=2 * MB), package("b", size=None)],
        "The packages need at least 2 MB to download, and 1 MB are allowed (packages.size).",
        "fewer",
    ),
    (
        {"count": 1},
        ["a"],
        [package("a"), package("b")],
        "comes to 2 packages, and 1 are allowed (packages.count)",
        "fewer",
    ),
    ({"count": 1}, ["a", "b"], [], "comes to 2 packages, and 1 are allowed (packages.count)", "fewer"),
    # age
    (
        {},
        ["fresh"],
        [package("fresh", days=2.1)],
        "The package fresh 1.0 was released 2.1 days ago, and versions that nobody has pinned must be 7 days old "
        "(packages.min_age_days).",
        "Ask for an earlier version, or pin it, if you trust it: fresh==1.0.",
    ),
    ({}, ["fresh"], [npm("fresh", days=0.5)], "fresh 1.0.0 was released 12 hours ago", "fresh@1.0.0"),
    ({}, ["fresh"], [package("fresh", days=-1)], "was released in the future, says its index", "earlier"),
    (
        {"undated": "block"},
        ["undated"],
        [package("undated", days=None)],
        "The index does not say when undated 1.0 was released",
        'packages.undated can be "warn"',
    ),
    (
        {},
        ["a==1.0"],
        [package("a"), package("new", days=1)],
        "new 1.0 (which another package needs) was rel",
        "new==1.0",
    ),
    ({}, ["a==1.0"], [package("a", "1.1", days=1)], "The package a 1.1 was released 1.0 days ago", "a==1.1"),
    # licences
    (
        {"licences": ["MIT", "BSD-*"]},
        ["a"],
        [package("a", licence="GPL-3.0-only")],
        "The package a 1.0 has the licence GPL-3.0-only, which is not allowed (packages.licences).",
        "Licences: MIT, BSD-*.",
    ),
    ({"licences": ["MIT"]}, ["a"], [package("a")], "The package a 1.0 names no licence, which is not allowed", "MIT"),
    ({"licences": "not:GPL-3.0"}, ["a"], [package("a", licence="GPL-3.0-or-later")], "the licence GPL-3.0-or", "GPL"),
    ({"licences": "not:GPL-*"}, ["a"], [package("a", licence="MIT AND GPL-2.0-only")], "the licence MIT AND", "GPL"),
    ({"licences": "not:GPL-3.0"}, ["a"], [package("a", licence="GNU GPL")], "has the licence GNU GPL", "not:GPL-3.0"),
    ({"licences": "MIT"}, ["a"], [package("a", licence="do what you like")], "the licence do what you like", "MIT"),
    # hashes
    (
        {"hashes": True},
        ["a"],
        [],
        "a is not pinned with a hash, and every package must be (packages.hashes).",
        "VERSION",
    ),
    ({"hashes": True}, ["a==1.0"], [], "a==1.0 is not pinned with a hash", "Ask for a==1.0 --hash=sha256:…"),
    (
        {"hashes": True},
        [f"a==1.0 --hash={HASH}"],
        [package("a"), package("b", "2.0")],
        "b 2.0 (which another package needs) is not pinned with a hash",
        "Ask for b==2.0 --hash=sha256:….",
    ),
    (
        {},
        [f"a==1.0 --hash={OTHER}"],
        [package("a")],
        f"The file of a 1.0 has a hash that its requirement does not name (packages.hashes): {HASH}.",
        "Compare the file",
    ),
    # sources
    (
        {},
        ["a"],
        [package("a", is_source=True)],
        "The package a 1.0 has no wheel and would have to be built",
        "add a to",
    ),
    ({"sources": "b"}, ["a"], [package("a", is_source=True)], "runs its code (packages.sources)", "has a wheel"),
    # catalogue and look-alikes
    ({}, ["colourama"], [package("colourama")], "The package colourama 1.0 is malicious, says MAL-", "mean colorama?"),
    ({}, ["chalk"], [npm("chalk", "5.6.1")], "chalk 5.6.1 is malicious, says MAL-", "Remove it"),
    (
        {},
        ["x"],
        [npm("x"), npm("flatmap-stream", "0.1.1")],
        "flatmap-stream 0.1.1 is malicious",
        "whatever asks for it",
    ),
    (
        {"lookalikes": "block"},
        ["reqeusts"],
        [],
        "The package reqeusts has nearly the name of requests, which is popular (packages.lookalikes).",
        "Did you mean requests? If not, the operator can name reqeusts in packages.allow.",
    ),
]


@pytest.mark.parametrize(("policy", "asked", "packages", "message", "hint"), REFUSED)
def test_a_refusal_names_the_rule_and_says_what_to_do(
    policy: dict[str, Any], asked: list[str], packages: list[LockedPackage], message: str, hint: str
) -> None:
    with pytest.raises(Refused) as problem:
        decide(policy_of(policy), asked, *packages)
    assert message in problem.value.message
    assert "(packages." in problem.value.message
    assert hint in problem.value.hint
    assert problem.value.message.endswith(".")


@pytest.mark.parametrize(
    ("policy", "asked", "packages"),
    [
        ({}, ["requests"], [package("requests"), package("idna")]),
        ({"deny": "npm:evil"}, ["evil"], [package("evil")]),
        ({"deny": "evil"}, ["evil-not"], [package("evil-not")]),
        ({"allow": "npm:lodash"}, ["lodash"], [npm("lodash")]),
        ({"allow": "Flask_Login"}, ["flask.login"], [package("flask-login")]),
        ({"versions": {"npm:numpy": "<3"}}, ["numpy"], [package("numpy", "3.1")]),
        ({"size": 0}, ["a"], [package("a", size=0)]),
        ({"size": "100M"}, ["a"], [package("a", size=100 * MB)]),
        ({}, ["fresh==1.0"], [package("fresh", days=1)]),
        ({}, ["fresh==1"], [package("fresh", "1.0.0", days=1)]),
        ({"undated": "block"}, ["fresh@1.0.0"], [npm("fresh", days=None)]),
        ({"undated": "off"}, ["fresh"], [npm("fresh", days=None)]),
        ({"min_age_days": "off"}, ["fresh"], [package("fresh", days=None)]),
        ({"min_age_days": 0}, ["fresh"], [package("fresh", days=0)]),
        ({"licences": ["MIT"]}, ["a"], [package("a", licence="GPL-3.0 OR MIT")]),
        ({"licences": ["MIT"]}, ["a"], [package("a", licence="License :: OSI Approved :: MIT License")]),
        ({"licences": ["not:GPL-3.0"]}, ["a"], [package("a", licence="(MIT OR GPL-3.0) AND BSD-3-Clause")]),
        ({"licences": ["GPL-2.0"]}, ["a"], [package("a", licence="GPL-2.0-only WITH Classpath-exception-2.0")]),
        ({"hashes": True}, [f"a==1.0 --hash={HASH} --hash={OTHER}"], [package("a")]),
        ({"sources": "*"}, ["a"], [package("a", is_source=True)]),
        ({"scripts": "esbuild"}, ["esbuild"], [npm("esbuild", has_scripts=True)]),
        ({"catalogue": "off"}, ["colourama==1.0"], [package("colourama")]),
        ({"lookalikes": "block", "allow": "reqeusts"}, ["reqeusts"], [package("reqeusts")]),
        ({}, ["chalk"], [npm("chalk", "5.6.2")]),
    ],
)
def test_what_no_rule_is_against_is_allowed_without_a_word(
    policy: dict[str, Any], asked: list[str], packages: list[LockedPackage]
) -> None:
    found = decide(policy_of({"lookalikes": "off", **policy}), asked, *packages)
    assert found == []


def test_a_malicious_name_is_refused_before_an_index_is_asked() -> None:
    for asked in ("colourama", "colourama==0.1", "ultralytics==8.3.41"):
        with pytest.raises(Refused, match=r"is malicious, says MAL-.*\(packages.catalogue\)"):
            PackagePolicy().check_request(requirements_of(asked, "python"), CATALOGUE)
    assert PackagePolicy().check_request(requirements_of(["ultralytics", "ctx==0.3"], "python"), CATALOGUE) == []


@pytest.mark.parametrize(
    ("policy", "asked", "packages", "warning"),
    [
        (
            {},
            ["reqeusts"],
            [package("reqeusts")],
            "nearly the name of requests, which is popular. Did you mean requests?",
        ),
        ({"catalogue": "warn"}, ["colourama"], [package("colourama")], "colourama 1.0 is malicious, says MAL-"),
        ({}, ["esbuild"], [npm("esbuild", has_scripts=True)], "Install scripts do not run unless packages.scripts"),
        (
            {},
            ["a"],
            [package("a", days=None), package("b", days=None)],
            "The index does not say when a, b came out, so their age is unknown (packages.min_age_days).",
        ),
        ({"licences": "not:MIT"}, ["a"], [package("a", licence="see file")], "The licence of a 1.0 is unknown"),
    ],
)
def test_what_is_only_suspicious_is_a_warning(
    policy: dict[str, Any], asked: list[str], packages: list[LockedPackage], warning: str
) -> None:
    (found,) = [each for each in decide(policy_of(policy), asked, *packages) if warning in each]
    assert found.endswith((".", "?"))


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ([], "A policy on packages is a table", "allow, deny"),
        ({"alow": []}, "no field 'alow'", "allow"),
        ({"allow": 3}, "packages.allow is a list of package names", "npm:"),
        ({"allow": ["a b"]}, "packages.allow: 'a b' is not the name", "name with *"),
        ({"deny": ["gem:x"]}, "packages.deny: 'gem:x' is not the name", "npm:"),
        ({"deny": [""]}, "packages.deny: '' is not the name", "npm:"),
        ({"deny": ["x" * 300]}, "packages.deny has a name of more than 250 characters", "npm:"),
        ({"deny": [str(n) for n in range(1001)]}, "packages.deny has 1001 entries", ""),
        ({"allow": ["none", "a"]}, 'packages.allow has "none" among other names', "alone"),
        ({"versions": ["<3"]}, "packages.versions is a table", "numpy"),
        ({"versions": {"numpy": 3}}, "packages.versions: the bound of 'numpy' is a text", ""),
        ({"versions": {"numpy": "^3"}}, "packages.versions: '^3' of numpy is not a bound", "npm:numpy"),
        ({"versions": {"npm:a": "~=3.1"}}, "packages.versions: '~=3.1' of npm:a is not a bound", "<3"),
        ({"versions": {"a": "==3.*,!=3.1"}}, "packages.versions: '==3.*,!=3.1' of a is not a bound", "python:a"),
        ({"size": "many"}, "packages.size='many' is not a size", "512M"),
        ({"size": -1}, "packages.size must be between", ""),
        ({"count": True}, "packages.count must be a whole number", ""),
        ({"min_age_days": "never"}, "packages.min_age_days is a number of days", '"off"'),
        ({"min_age_days": float("nan")}, "packages.min_age_days must be between", ""),
        ({"licences": ["MIT!"]}, "packages.licences: 'MIT!' is not the id", "not:GPL-3.0"),
        ({"hashes": "yes"}, "packages.hashes is true or false", ""),
        ({"catalogue": "ignore"}, "packages.catalogue cannot be 'ignore'", '"block", "warn" or "off"'),
        ({"lookalikes": None, "catalogue": 1}, "packages.catalogue cannot be 1", "off"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_with_its_field(value: Any, message: str, hint: str) -> None:
    with pytest.raises(InvalidRun) as problem:
        policy_of(value)
    assert message in problem.value.message
    assert hint in problem.value.hint


def test_a_policy_survives_being_written_down() -> None:
    rules = {"allow": ["a*", "npm:@x/*"], "versions": {"Numpy": "<3"}, "size": "5M", "min_age_days": "off"}
    policy = policy_of({**rules, "licences": ["MIT", "not:GPL-*"], "sources": "b", "lookalikes": "block"})
    assert policy_of(policy.as_dict()) == policy
    assert policy.size == 5 * MB
    assert policy_of(None) == PackagePolicy() == policy_of({})


def test_a_resolver_learns_the_bounds() -> None:
    policy = policy_of({"versions": {"numpy": "<3", "python:pandas": ">=2,!=2.1", "npm:lodash": "4 || 5", "x-*": "<1"}})
    policy = policy.narrowed(policy_of({"versions": {"numpy": ">=1"}}))
    assert policy.bounds_for("python") == {"numpy": "<3,>=1", "pandas": ">=2,!=2.1"}
    assert policy.bounds_for("javascript") == {"numpy": "<3 >=1", "lodash": "4 || 5"}


# Narrowing

WORDS = ["a", "ab", "a_b", "a-b", "a.b", "abc", "b", "bc", "a__b", "npm:ab", "python:ab", "a*", "*b", "a*c", "*", "a_*"]
PATTERNS = [*WORDS, "a-*", "*-b", "npm:*", "python:*", "npm:a*", "python:*b", "a*b*", "a_*_b", "*_b"]
NAMES = ["a", "ab", "a-b", "abc", "b", "bc", "a-c", "abb", "a-x-b"]
BOUNDS = ["<2", ">=1", "<3", ">=2", "==1.*"]


def some_policy(chance: random.Random) -> PackagePolicy:
    def few(values: list[str]) -> list[str]:
        return chance.sample(values, chance.choice([0, 0, 1, 2, 4]))

    return policy_of(
        {
            "allow": chance.choice([few(PATTERNS), few(PATTERNS), ["none"]]),
            "deny": few(PATTERNS[:10]),
            "versions": {f"python:{name}": chance.choice(BOUNDS) for name in few(NAMES)},
            "size": chance.choice([MB, 2 * MB, 3 * MB]),
            "count": chance.choice([1, 2, 3]),
            "min_age_days": chance.choice(["off", 3, 7]),
            "licences": few(["MIT", "BSD-*", "GPL-3.0", "GPL-3.0-only", "not:GPL-*", "not:MIT", "*"]),
            "hashes": chance.random() < 0.1,
            "sources": few(PATTERNS),
            "scripts": few(PATTERNS),
            "catalogue": chance.choice(["block", "warn", "off"]),
            "lookalikes": chance.choice(["block", "warn", "off"]),
            "undated": chance.choice(["block", "warn", "off"]),
        }
    )


def allows(policy: PackagePolicy, asked: list[str], packages: list[LockedPackage]) -> bool:
    try:
        decide(policy, asked, *packages)
    except Refused:
        return False
    return True


def test_a_narrowed_policy_allows_exactly_what_both_allow() -> None:
    chance = random.Random(20)
    outcomes = {True: 0, False: 0}
    for _ in range(4000):
        one, other = some_policy(chance), some_policy(chance)
        both = one.narrowed(other)
        make = chance.choice([package, npm])
        names = chance.sample(NAMES, chance.choice([1, 1, 2]))
        packages = [
            make(
                name,
                chance.choice(["1.0.0", "2.0.0", "3.0.0"]),
                size=chance.choice([MB, MB // 2, 2 * MB]),
                days=chance.choice([1, 5, 100, None]),
                licence=chance.choice(["MIT", "BSD-3-Clause", "GPL-3.0-only", "GPL-3.0-or-later", ""]),
                is_source=chance.random() < 0.1,
            )
            for name in names
        ]
        expected = allows(one, names, packages) and allows(other, names, packages)
        # Two fields may meet that come from different policies: `min_age_days` of one, and `undated` of the other.
        if expected and one.undated == other.undated:
            assert allows(both, names, packages), (one, other, names)
        elif not expected:
            assert not allows(both, names, packages), (one, other, names)
        for name in names:
            scripts = one.allows_scripts(name) and other.allows_scripts(name)
            assert both.allows_scripts(name) == scripts, (one.scripts, other.scripts, both.scripts, name)
        outcomes[expected] += 1
    assert min(outcomes.values()) > 50  # neither answer is rare


def test_names_of_both_spellings_are_narrowed_exactly() -> None:
    chance = random.Random(3)
    for _ in range(3000):
        one, other = (policy_of({"allow": chance.sample(PATTERNS, chance.randint(1, 3))}) for _ in range(2))
        both = one.narrowed(other)
        for ecosystem in ("python", "javascript"):
            for name in [*NAMES, *(["a_b", "a__b", "a.b"] if ecosystem == "javascript" else [])]:
                asked = [Requirement(ecosystem, name, name)]
                answers = [_is_allowed(policy, asked) for policy in (one, other, both)]
                assert answers[2] == (answers[0] and answers[1]), (one.allow, other.allow, both.allow, ecosystem, name)


def _is_allowed(policy: PackagePolicy, asked: list[Requirement]) -> bool:
    try:
        policy.check_request(asked)
    except Refused:
        return False
    return True


def test_narrowing_long_lists_is_quick_and_refuses_none_of_them() -> None:
    one = policy_of({"allow": [f"name-{n}" for n in range(1000)], "deny": [f"bad-{n}" for n in range(1000)]})
    other = policy_of({"allow": ["name-*"], "deny": [f"worse-{n}" for n in range(1000)]})
    both = one.narrowed(other)
    assert len(both.allow) == 1000
    assert len(both.deny) == 2000
    assert one.narrowed(policy_of({"allow": "other"})).allow == ("none",)
    begin = time.perf_counter()
    assert one.narrowed(one.replace(size=1)).allow == one.allow
    assert time.perf_counter() - begin < 2  # a million pairs would take ten
