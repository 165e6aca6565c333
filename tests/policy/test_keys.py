"""Keys in a real store: who they let in, the admin's file, and what passes a limit."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from contextlib import closing

import pytest

from cloche.errors import ClocheError, Gone, InvalidRun, Misconfigured
from cloche.policy import key_file
from cloche.policy.caller import ANYBODY, Caller
from cloche.policy.key_policy import KeyPolicy
from cloche.policy.keys import Keyring
from cloche.policy.meter import Meter
from cloche.policy.refusals import TooMany
from cloche.store.store import Store


@pytest.fixture
async def store(tmp_path):
    opened = await Store.open(f"sqlite:///{tmp_path / 'cloche.db'}")
    yield opened
    await opened.close()


@pytest.fixture
async def ring(store):
    ring = Keyring(store)
    await ring.load()
    return ring


async def reopened(store: Store) -> Keyring:
    ring = Keyring(store)
    await ring.load()
    return ring


class Clock:
    def __init__(self, now: float = 20_000 * 86400.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


# Finding


async def test_a_key_is_found_by_its_secret(ring):
    record, secret = await ring.create("ada", "notebook", ["run"], {"limits": {"sandboxes": 3}})

    assert ring.find(secret) == Caller(record.id, "ada", frozenset({"run"}), KeyPolicy({"sandboxes": 3}))
    assert len(secret) == len("cloche_") + 43
    assert secret.startswith("cloche_")


async def test_the_secret_is_kept_nowhere(ring, store, tmp_path):
    record, secret = await ring.create("ada", "notebook", ["run"], {})

    assert (await store.keys()) == [record]
    assert record.digest == hashlib.sha256(secret.encode()).hexdigest()
    await store.close()
    assert not any(secret.encode() in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


@pytest.mark.parametrize(
    "change", [lambda s: s[:-1], lambda s: s + "x", lambda s: s.upper(), lambda _: "", lambda s: s[7:]]
)
async def test_what_is_no_key_finds_nobody(ring, change):
    _, secret = await ring.create("ada", "notebook", ["run"], {})

    assert ring.find(change(secret)) is None


@pytest.mark.parametrize("text", ["\udcff", "é" * 50, "\0", "x" * 1_000_000])
async def test_any_text_can_be_looked_for(ring, text):
    assert ring.find(text) is None


async def test_the_digest_is_no_key(ring):
    record, _ = await ring.create("ada", "notebook", ["run"], {})

    assert ring.find(record.digest) is None


async def test_keys_are_there_after_a_restart(ring, store):
    record, secret = await ring.create("ada", "notebook", ["run", "read"], {"limits": {"runs_at_once": 2}})

    again = await reopened(store)

    assert again.find(secret) == ring.find(secret)
    assert again.list() == (record,)


@pytest.mark.parametrize(
    ("scopes", "allowed"),
    [({"read"}, {"read"}), ({"run"}, {"run", "read"}), ({"admin"}, {"run", "read", "admin"}), (set(), set())],
)
def test_scopes_include_smaller_ones(scopes, allowed):
    caller = Caller("k", "ada", frozenset(scopes))

    assert {scope for scope in ("run", "read", "admin") if caller.may(scope)} == allowed


def test_an_unknown_scope_is_a_mistake_of_ours():
    with pytest.raises(KeyError):
        ANYBODY.may("write")


# Revoking


async def test_a_revoked_key_opens_nothing_now_and_later(ring, store):
    record, secret = await ring.create("ada", "notebook", ["run"], {})
    _, other = await ring.create("ada", "other", ["run"], {})

    revoked = await ring.revoke(record.id)

    assert ring.find(secret) is None
    assert (await reopened(store)).find(secret) is None
    assert ring.find(other) is not None
    assert revoked.revoked is not None
    assert [key.revoked is None for key in ring.list()] == [False, True]
    assert await ring.revoke(record.id) == revoked


async def test_a_key_is_revoked_although_the_store_fails(ring, tmp_path):
    record, secret = await ring.create("ada", "notebook", ["run"], {})
    with closing(sqlite3.connect(tmp_path / "cloche.db")) as other:
        other.execute("DROP TABLE keys")

    with pytest.raises(ClocheError):
        await ring.revoke(record.id)

    assert ring.find(secret) is None


async def test_a_key_that_is_not_there_cannot_be_revoked(ring):
    with pytest.raises(Gone, match="key_none"):
        await ring.revoke("key_none")


# What a key can be


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"owner": ""}, "owner=''"),
        ({"owner": "a b"}, "owner="),
        ({"owner": "ada\n"}, "owner="),
        ({"owner": "a" * 65}, "owner="),
        ({"owner": 7}, "owner=7"),
        ({"name": " "}, "name="),
        ({"name": "\x1b[31m"}, "name="),
        ({"name": "n" * 101}, "name="),
        ({"scopes": []}, "without scopes"),
        ({"scopes": "run"}, "not a list"),
        ({"scopes": 3}, "not a list"),
        ({"scopes": ["write"]}, "'write' is not a scope"),
        ({"scopes": [["run"]]}, "not a scope"),
        ({"policy": ["limits"]}, "not an object"),
        ({"policy": {"limit": {}}}, "not a section"),
        ({"policy": {"limits": {"request_per_second": 1}}}, "not a limit"),
        ({"policy": {"limits": {"request_per_second": None}}}, "not a limit"),
        ({"policy": {"limits": ["sandboxes"]}}, "not an object"),
        ({"policy": {"limits": {"sandboxes": 0}}}, "not a number above 0"),
        ({"policy": {"limits": {"sandboxes": -1}}}, "not a number above 0"),
        ({"policy": {"limits": {"sandboxes": True}}}, "not a number above 0"),
        ({"policy": {"limits": {"sandboxes": "3"}}}, "not a number above 0"),
        ({"policy": {"limits": {"bytes_per_day": float("nan")}}}, "not a number above 0"),
        ({"policy": {"limits": {"bytes_per_day": float("inf")}}}, "not a number above 0"),
        ({"policy": {"limits": {"runs_at_once": 1.5}}}, "not a whole number"),
    ],
)
async def test_what_makes_no_sense_is_refused_with_a_hint(ring, change, words):
    with pytest.raises(InvalidRun) as caught:
        await ring.create(**{"owner": "ada", "name": "n", "scopes": ["run"], "policy": {}, **change})

    assert words in caught.value.message
    assert caught.value.hint
    assert ring.list() == ()


async def test_a_limit_of_none_is_none(ring):
    limits = {"sandboxes": None, "cpu_seconds_per_day": 0.5}
    record, _ = await ring.create("ada", "n", ["run", "run"], {"limits": limits})

    assert (record.scopes, record.policy) == (("run",), {"limits": {"cpu_seconds_per_day": 0.5}})


# The admin's file


async def test_the_first_start_makes_an_admin_key(ring, tmp_path):
    path = tmp_path / "data" / "key"

    secret = await ring.ensure_admin(path)

    assert path.read_text() == f"{secret}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["key"]
    caller = ring.find(secret)
    assert (caller.owner, caller.may("admin")) == ("admin", True)


async def test_the_file_is_private_whatever_the_umask(ring, tmp_path):
    before = os.umask(0)
    try:
        await ring.ensure_admin(tmp_path / "data" / "key")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "data" / "key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


async def test_later_starts_read_it(ring, store, tmp_path):
    secret = await ring.ensure_admin(tmp_path / "key")
    again = await reopened(store)

    assert await again.ensure_admin(tmp_path / "key") == secret
    assert len(again.list()) == 1
    assert again.find(secret).may("admin")


async def test_a_new_database_gets_to_know_it(ring, tmp_path):
    secret = await ring.ensure_admin(tmp_path / "key")
    fresh = await Store.open(f"sqlite:///{tmp_path / 'new.db'}")
    try:
        other = await reopened(fresh)

        assert other.find(secret) is None
        assert await other.ensure_admin(tmp_path / "key") == secret
        assert other.find(secret).may("admin")
    finally:
        await fresh.close()


async def test_a_revoked_one_is_replaced_and_stays_revoked(ring, store, tmp_path):
    secret = await ring.ensure_admin(tmp_path / "key")
    await ring.revoke(ring.find(secret).key_id)
    again = await reopened(store)

    fresh = await again.ensure_admin(tmp_path / "key")

    assert fresh != secret
    assert (tmp_path / "key").read_text().strip() == fresh
    assert again.find(secret) is None
    assert again.find(fresh).may("admin")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
async def test_a_file_that_others_can_read_is_refused(ring, tmp_path, mode):
    path = tmp_path / "key"
    await ring.ensure_admin(path)
    path.chmod(mode)

    with pytest.raises(Misconfigured) as caught:
        await ring.ensure_admin(path)

    assert f"chmod 600 {path}" in caught.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_a_file_of_another_user_is_refused_by_a_server(ring, tmp_path):
    path = tmp_path / "key"
    secret = await ring.ensure_admin(path)
    os.chown(path, 65534, 65534)

    with pytest.raises(Misconfigured, match="belongs to another user"):
        await ring.ensure_admin(path)
    assert key_file.read(path, of_anybody=True) == secret  # `sudo cloche key`


@pytest.mark.parametrize("content", ["", "secret\n", "cloche_short\n", f"cloche_{'é' * 43}"])
async def test_a_file_without_a_key_is_refused(ring, tmp_path, content):
    (tmp_path / "key").write_text(content)
    (tmp_path / "key").chmod(0o600)

    with pytest.raises(Misconfigured, match="not a key"):
        await ring.ensure_admin(tmp_path / "key")


async def test_a_link_a_folder_or_a_pipe_is_refused(ring, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "folder").mkdir(0o700)
    os.mkfifo(tmp_path / "pipe", 0o600)

    for name, words in (("link", "symbolic link"), ("folder", "not a file"), ("pipe", "not a file")):
        with pytest.raises(Misconfigured, match=words):
            await ring.ensure_admin(tmp_path / name)
    assert not (tmp_path / "elsewhere").exists()


async def test_a_lesser_key_in_the_file_is_refused(ring, tmp_path):
    _, secret = await ring.create("ada", "n", ["run"], {})
    (tmp_path / "key").write_text(secret)
    (tmp_path / "key").chmod(0o600)

    with pytest.raises(Misconfigured, match="not an admin key"):
        await ring.ensure_admin(tmp_path / "key")


async def test_a_folder_that_cannot_be_made_is_told(ring, tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(Misconfigured, match="cannot be written"):
        await ring.ensure_admin(tmp_path / "file" / "key")


# Limits


def test_without_limits_everything_passes():
    meter = Meter({})
    for _ in range(1000):
        meter.admit_request()
        meter.begin_run()
        meter.begin_sandbox()
    meter.end_run(1e9, 10**15)
    meter.begin_run()

    assert (meter.runs, meter.sandboxes) == (1000, 1000)


@pytest.mark.parametrize(("rate", "burst"), [(5, 10), (0.1, 1), (0.5, 1), (1.5, 3)])
def test_requests_a_second(rate, burst):
    clock = Clock()
    meter = Meter({"requests_per_second": rate}, now=clock)
    for _ in range(burst):
        meter.admit_request()
    with pytest.raises(TooMany) as caught:
        meter.admit_request()

    assert caught.value.limit == "requests_per_second"
    assert caught.value.retry_after == pytest.approx(1 / rate)
    assert "requests a second" in caught.value.message
    assert caught.value.hint
    clock.now += caught.value.retry_after
    meter.admit_request()
    with pytest.raises(TooMany):
        meter.admit_request()
    clock.now += 3600
    for _ in range(burst):
        meter.admit_request()
    with pytest.raises(TooMany):
        meter.admit_request()


def test_a_clock_that_is_set_back_takes_nothing_away():
    clock = Clock()
    meter = Meter({"requests_per_second": 1}, now=clock)
    meter.admit_request()
    clock.now -= 3600
    meter.admit_request()
    clock.now += 1
    meter.admit_request()
    with pytest.raises(TooMany):
        meter.admit_request()


def test_runs_at_once():
    meter = Meter({"runs_at_once": 2})
    meter.begin_run()
    meter.begin_run()
    with pytest.raises(TooMany, match="2 runs at once") as caught:
        meter.begin_run()
    assert (caught.value.limit, caught.value.retry_after > 0) == ("runs_at_once", True)

    meter.end_run(0, 0)
    meter.begin_run()
    assert meter.runs == 2


def test_sandboxes():
    meter = Meter({"sandboxes": 1})
    meter.begin_sandbox()
    with pytest.raises(TooMany, match="1 sandboxes at once") as caught:
        meter.begin_sandbox()
    assert caught.value.limit == "sandboxes"

    meter.end_sandbox()
    meter.begin_sandbox()


@pytest.mark.parametrize(("limit", "use"), [("cpu_seconds_per_day", (60.0, 0)), ("bytes_per_day", (0.0, 60))])
def test_a_days_work_is_given_anew_at_midnight(limit, use):
    clock = Clock(20_000 * 86400.0 + 86400 - 3 * 3600 - 600)
    meter = Meter({limit: 100}, now=clock)
    meter.begin_run()
    meter.end_run(*use)
    meter.begin_run()
    meter.end_run(*use)
    with pytest.raises(TooMany) as caught:
        meter.begin_run()

    assert (caught.value.limit, caught.value.retry_after, meter.runs) == (limit, 3 * 3600 + 600, 0)
    assert "3 h 10 min" in caught.value.hint
    clock.now += caught.value.retry_after
    meter.begin_run()
    assert (meter.cpu_s, meter.bytes) == (0.0, 0)


def test_what_a_run_used_counts_for_the_day_on_which_it_ends():
    clock = Clock(20_001 * 86400.0 - 1)
    meter = Meter({"cpu_seconds_per_day": 10}, now=clock)
    meter.begin_run()
    clock.now += 2
    meter.end_run(10, 5)

    assert (meter.cpu_s, meter.bytes) == (10, 5)
    with pytest.raises(TooMany):
        meter.check_day()


async def test_each_key_has_its_own_meter_which_knows_what_was_used_before(ring):
    first, secret = await ring.create("ada", "n", ["run"], {"limits": {"cpu_seconds_per_day": 10, "sandboxes": 1}})
    _, other = await ring.create("ada", "m", ["run"], {"limits": {"cpu_seconds_per_day": 10}})

    ring.load_usage(first.id, 10.0, 7)
    ring.load_usage("key_gone", 1.0, 1)

    meter = ring.meter(ring.find(secret))
    assert meter is ring.meter(ring.find(secret))
    assert (meter.cpu_s, meter.bytes) == (10.0, 7)
    with pytest.raises(TooMany, match="10 CPU seconds a day"):
        meter.begin_run()
    ring.meter(ring.find(other)).begin_run()
