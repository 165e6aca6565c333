"""Records that are stored come back the same, on both databases."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from tests.store.facts import audit, run, sandbox

from cloche.errors import InvalidRun
from cloche.model.records import BrowserSession, ChargeRecord, Fact, KeyRecord, UsageTotal
from cloche.store.database import Unstorable
from cloche.store.store import Store

DAY_S = 86400


async def test_a_key_is_kept_and_can_be_revoked(store: Store) -> None:
    key = KeyRecord("k1", "ada", "laptop", "ab" * 32, ("run", "read"), {"runs": 4.0}, created=5.5)
    await store.put_key(key)
    await store.put_key(KeyRecord("k0", "bob", "", "cd" * 32, (), {}, created=1.0))
    await store.put_key(replace(key, revoked=7.0))
    assert [found.id for found in await store.keys()] == ["k0", "k1"]
    assert (await store.keys())[1] == replace(key, revoked=7.0)


async def test_sessions_of_browsers_are_kept_and_removed(store: Store) -> None:
    old, new = BrowserSession("ab" * 32, "k1", 5.0), BrowserSession("cd" * 32, "k2", 9.5)
    await store.change_browser_sessions([new, old], [])
    assert await store.browser_sessions() == [old, new]
    await store.change_browser_sessions([], [old.id])
    assert await store.browser_sessions() == [new]


async def test_every_field_comes_back_as_it_was(store: Store) -> None:
    one_run = run(
        "r1",
        "failed",
        sandbox="s1",
        context="c",
        limits={"timeout": float("inf"), "text": "\0\ud800é"},
        ended=1001.25,
        exit_code=-9,
        error_kind="memory",
        duration=1.25,
        cpu_time=0.1 + 0.2,
        memory_peak=1 << 40,
        bytes_moved=1 << 50,
        result=json.dumps({"stdout": "é\0\ud800" * 1000}),
    )
    one_sandbox = sandbox(
        "s1",
        "ended",
        limits={"a": [1, None]},
        metadata={"k": "v"},
        expires=1e10 + 0.5,
        persistent=True,
        workspace="/w",
        ended=2000.5,
        reason="idle",
    )
    entry = audit("a1", details={"limits": {"memory": 1}, "outcome": "done"})
    await store.write([one_run, one_sandbox, entry])
    assert await store.run("ada", "r1") == one_run
    assert await store.sandbox("ada", "s1") == one_sandbox
    entries, _ = await store.audit(limit=10)
    assert entry in entries
    assert [one.target for one in entries if one.action == "run" and one != entry] == ["r1"]  # with its outcome


async def test_a_result_of_a_megabyte_is_kept_and_lists_leave_it_out(store: Store) -> None:
    result = json.dumps("x" * (1 << 20))
    await store.write([run("r1", "done", result=result)])
    assert (await store.run("ada", "r1")).result == result
    listed, _ = await store.runs("ada", limit=10)
    assert [(found.id, found.result) for found in listed] == [("r1", None)]


async def test_others_things_look_as_if_they_did_not_exist(store: Store) -> None:
    await store.write([run("r1"), sandbox("s1", metadata={"a": "b"}), audit("a1")])
    assert await store.run("bob", "r1") is None
    assert await store.sandbox("bob", "s1") is None
    assert await store.runs("bob", limit=5) == ([], None)
    assert await store.sandboxes("bob", metadata={"a": "b"}, limit=5) == ([], None)
    assert await store.audit(owner="bob", limit=5) == ([], None)
    assert await store.usage("bob", 0) == UsageTotal()


async def test_what_is_written_is_there_after_a_restart(store: Store, url: str) -> None:
    await store.write([run("r1", "done"), sandbox("s1"), audit("a1")])
    await store.close()
    again = await Store.open(url)
    try:
        assert (await again.run("ada", "r1")).state == "done"
        assert await again.sandbox("ada", "s1") == sandbox("s1")
        assert sorted(entry.id for entry in (await again.audit(limit=5))[0]) == ["a1", "audit_r1"]
    finally:
        await again.close()


async def test_pages_are_newest_first_and_miss_nothing_when_times_are_equal(store: Store) -> None:
    await store.write([run(f"r{number:02}", started=1000.0 + number // 5) for number in range(23)])
    seen: list[str] = []
    after = None
    while True:
        found, after = await store.runs("ada", limit=4, after=after)
        seen += [each.id for each in found]
        assert len(found) <= 4
        if after is None:
            break
    assert seen == [f"r{number:02}" for number in reversed(range(23))]


async def test_pages_stay_in_step_while_new_runs_come(store: Store) -> None:
    await store.write([run(f"r{number}", started=float(number)) for number in range(6)])
    first, after = await store.runs("ada", limit=3)
    await store.write([run("new", started=100.0)])
    second, end = await store.runs("ada", limit=3, after=after)
    assert [each.id for each in first + second] == ["r5", "r4", "r3", "r2", "r1", "r0"]
    assert end is None


async def test_sandboxes_and_audit_are_paged_too(store: Store) -> None:
    await store.write([sandbox(f"s{number}", created=float(number)) for number in range(3)])
    await store.write([audit(f"a{number}", time=float(number), owner=f"o{number % 2}") for number in range(4)])
    first, after = await store.sandboxes("ada", limit=2)
    second, _ = await store.sandboxes("ada", limit=2, after=after)
    assert [each.id for each in first + second] == ["s2", "s1", "s0"]
    entries, after = await store.audit(limit=3)
    rest, _ = await store.audit(limit=3, after=after)
    assert [each.id for each in entries + rest] == ["a3", "a2", "a1", "a0"]
    assert [each.id for each in (await store.audit(owner="o1", limit=9))[0]] == ["a3", "a1"]


@pytest.mark.parametrize(
    "after", ["", "x", "'; DROP TABLE runs; --", "WzEsMl0", "W05hTiwieCJd", "bnVsbA", "é", "\0", "WyJhIiwiYiJd"]
)
async def test_an_invented_cursor_is_refused(store: Store, after: str) -> None:
    with pytest.raises(InvalidRun, match="cursor"):
        await store.runs("ada", limit=3, after=after)


async def test_runs_are_filtered_by_sandbox_and_state(store: Store) -> None:
    await store.write([run("r1", sandbox="s1"), run("r2", "done", sandbox="s1"), run("r3", "done", sandbox="s2")])
    assert {each.id for each in (await store.runs("ada", sandbox="s1", limit=9))[0]} == {"r1", "r2"}
    assert {each.id for each in (await store.runs("ada", state="done", limit=9))[0]} == {"r2", "r3"}
    assert {each.id for each in (await store.runs("ada", sandbox="s1", state="done", limit=9))[0]} == {"r2"}


async def test_sandboxes_are_filtered_by_state_and_by_all_of_the_metadata(store: Store) -> None:
    await store.write(
        [
            sandbox("s1", metadata={"team": "red", "job": "7"}),
            sandbox("s2", metadata={"team": "red"}),
            sandbox("s3", "ended", metadata={"team": "red", "job": "7"}),
            sandbox("s4", metadata={"team": "7", "job": "red"}),
        ]
    )

    async def found(**filters: object) -> set[str]:
        return {each.id for each in (await store.sandboxes("ada", limit=9, **filters))[0]}  # type: ignore[arg-type]

    assert await found(metadata={"team": "red"}) == {"s1", "s2", "s3"}
    assert await found(metadata={"team": "red", "job": "7"}) == {"s1", "s3"}
    assert await found(metadata={"team": "red", "job": "7"}, state="alive") == {"s1"}
    assert await found(metadata={"team": "blue"}) == set()
    assert await found(metadata={}) == {"s1", "s2", "s3", "s4"}


HOSTILE = [
    "' OR '1'='1",
    "$.a\"]'; DROP TABLE sandboxes; --",
    'a"."b',
    "a.b[0]",
    "%",
    "_",
    "\\",
    "{}",
    ":owner",
    "",
    "\0",
    "\ud800",
    "é" * 5000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_metadata_of_any_kind_is_data(store: Store, text: str) -> None:
    await store.write([sandbox("s1", metadata={text: "v", "k": text}), sandbox("s2", metadata={"plain": "v"})])
    for filters in ({text: "v"}, {"k": text}, {text: "v", "k": text}):
        assert [each.id for each in (await store.sandboxes("ada", metadata=filters, limit=9))[0]] == ["s1"]
    assert (await store.sandbox("ada", "s1")).metadata == {text: "v", "k": text}
    assert await store.sandbox("ada", text) is None
    assert await store.runs(text, sandbox=text, state=text, limit=9) == ([], None)


async def test_changed_metadata_is_found_by_what_it_is_now(store: Store) -> None:
    await store.put_sandbox(sandbox("s1", metadata={"a": "1"}))
    await store.put_sandbox(sandbox("s1", metadata={"b": "2"}, expires=5.0))
    assert await store.sandboxes("ada", metadata={"a": "1"}, limit=9) == ([], None)
    assert (await store.sandboxes("ada", metadata={"b": "2"}, limit=9))[0][0].expires == 5.0


async def test_facts_repeated_change_nothing(store: Store) -> None:
    facts: list[Fact] = [
        run("r1"),
        sandbox("s1", metadata={"a": "b"}),
        audit("a1"),
        run("r1", "done", ended=1001.0, cpu_time=2.0, result="{}"),
        sandbox("s1", "ended", metadata={"a": "b"}, ended=1002.0),
        run("r2"),
    ]

    async def everything() -> object:
        return (
            await store.runs("ada", limit=9),
            await store.run("ada", "r1"),
            await store.sandboxes("ada", metadata={"a": "b"}, limit=9),
            await store.audit(limit=9),
            await store.usage("ada", 0),
        )

    await store.write(facts)
    before = await everything()
    await store.write(facts)
    for fact in facts:
        await store.write([fact])
    assert await everything() == before
    assert (await store.run("ada", "r1")).state == "done"
    assert (await store.sandbox("ada", "s1")).state == "ended"


@pytest.mark.parametrize("together", [True, False])
async def test_the_first_outcome_of_a_run_stays(store: Store, together: bool) -> None:
    facts = [run("r1", "done", exit_code=0), run("r1", "failed", exit_code=1), run("r1")]
    for batch in [facts] if together else [[fact] for fact in facts]:
        await store.write(batch)
    assert await store.run("ada", "r1") == facts[0]


async def test_a_sandbox_that_has_ended_is_not_brought_back_by_a_late_fact(store: Store) -> None:
    ended = sandbox("s1", "ended", metadata={"a": "b"}, ended=1002.0, workspace="/w")
    await store.put_sandbox(ended)
    await store.put_sandbox(sandbox("s1", metadata={"late": "b"}, expires=9.0))
    assert await store.sandboxes("ada", metadata={"a": "b"}, limit=9) == ([ended], None)
    await store.put_sandbox(replace(ended, workspace=None))
    assert (await store.sandbox("ada", "s1")).workspace is None


async def test_an_audit_entry_is_never_rewritten(store: Store) -> None:
    await store.write([audit("a1", action="run")])
    await store.write([audit("a1", action="nothing")])
    assert [each.action for each in (await store.audit(limit=9))[0]] == ["run"]


async def test_a_batch_arrives_whole_or_not_at_all(store: Store) -> None:
    with pytest.raises(Unstorable):
        await store.write([run("good", "done"), run("bad", "done", memory_peak=1 << 80)])
    assert await store.run("ada", "good") is None


async def test_recovery_settles_what_a_lost_server_left(store: Store) -> None:
    await store.write([run("r1"), run("r2", "done", ended=1001.0), run("r3", owner="bob")])
    await store.write([sandbox("s1", persistent=True, workspace="/w"), sandbox("s2", "ended", reason="killed")])
    lost = await store.recover(2000.0)
    assert [(each.id, each.state, each.reason, each.ended) for each in lost] == [
        ("s1", "lost", "the server stopped", 2000.0)
    ]
    assert await store.sandbox("ada", "s1") == lost[0]
    assert (await store.sandbox("ada", "s2")).reason == "killed"
    for owner, name in (("ada", "r1"), ("bob", "r3")):
        settled = await store.run(owner, name)
        assert (settled.state, settled.error_kind, settled.ended) == ("interrupted", "lost", 2000.0)
    assert (await store.run("ada", "r2")).state == "done"
    assert await store.recover(3000.0) == []
    assert (await store.run("ada", "r1")).ended == 2000.0


async def test_recovery_of_very_many_sandboxes(store: Store) -> None:
    await store.write([sandbox(f"s{number}") for number in range(1203)])
    assert len(await store.recover(2000.0)) == 1203


async def test_usage_is_summed_since_a_time_and_by_day(store: Store) -> None:
    now = time.time()
    today = now // DAY_S * DAY_S
    await store.write(
        [
            run("r1", "done", started=today, cpu_time=1.5, bytes_moved=10),
            run("r2", "failed", started=today, cpu_time=2.0, bytes_moved=5),
            run("r3", "done", started=today - 1, cpu_time=4.0, bytes_moved=1),
            run("r4", "done", started=today - 5 * DAY_S, cpu_time=8.0),
            run("r5", "done", started=today, cpu_time=100.0, owner="bob"),
        ]
    )
    assert await store.usage("ada", today) == UsageTotal(2, 3.5, 15)
    assert await store.usage("ada", today - 1) == UsageTotal(3, 7.5, 16)
    days = await store.usage_by_day("ada", 3)
    date = [time.strftime("%Y-%m-%d", time.gmtime(today - back * DAY_S)) for back in (2, 1, 0)]
    assert list(days.items()) == [
        (date[0], UsageTotal()),
        (date[1], UsageTotal(1, 4.0, 1)),
        (date[2], UsageTotal(2, 3.5, 15)),
    ]


def charge(name: str, cpu_time: float, hour: float, **others: str) -> ChargeRecord:
    return ChargeRecord(name, **{"owner": "ada", "key": "k1", **others}, hour=int(hour // 3600), cpu_time=cpu_time)


async def test_the_time_of_sandboxes_is_summed_and_that_of_their_runs_is_not(store: Store) -> None:
    today = time.time() // DAY_S * DAY_S
    facts: list[Fact] = [
        run("r1", "done", started=today, cpu_time=1.0),
        run("r2", "done", started=today, cpu_time=50.0, sandbox="s1", bytes_moved=7),
        charge("c1", 2.0, today),
        charge("c1", 4.0, today),
        charge("c1", 3.0, today),  # late: an amount only grows
        charge("c2", 8.0, today, key="k2"),
        charge("c3", 16.0, today - 1),
        charge("c4", 32.0, today, owner="bob", key="k3"),
    ]
    for batch in (facts, facts[::-1], *([fact] for fact in facts)):
        await store.write(batch)
    assert await store.usage("ada", today) == UsageTotal(2, 13.0, 7)
    assert [used.cpu_time for used in (await store.usage_by_day("ada", 2)).values()] == [16.0, 13.0]
    assert await store.usage_by_key(today) == {"k1": (5.0, 7), "k2": (8.0, 0), "k3": (32.0, 0)}
    date = time.strftime("%Y-%m-%d", time.gmtime(today))
    by_key = {
        "k1": {date: UsageTotal(2, 5.0, 7)},
        "k2": {date: UsageTotal(0, 8.0, 0)},
        "k3": {date: UsageTotal(0, 32.0, 0)},
    }
    assert await store.usage_by_key_and_day(1) == by_key
    await store.trim(max_runs=0, max_audit=10, before=0.0)
    assert await store.usage("ada", today) == UsageTotal(2, 13.0, 7)
    assert await store.usage_by_key_and_day(1) == by_key
    assert await store.usage_by_key(today) == {"k1": (5.0, 7), "k2": (8.0, 0), "k3": (32.0, 0)}


async def test_a_run_under_way_has_an_audit_entry_and_its_time_so_far(store: Store) -> None:
    await store.write([run("r1"), run("r1", cpu_time=2.0), run("r1", cpu_time=1.0)])
    await store.write([run("r1", cpu_time=5.0)])
    await store.write([run("r1", cpu_time=3.0)])
    assert (await store.usage("ada", 0)).cpu_time == 5.0
    for outcome in ("running", "done", "done"):
        ((entry,), _) = await store.audit(limit=9)
        assert (entry.action, entry.target, entry.details["outcome"]) == ("run", "r1", outcome)
        await store.write([run("r1", "done", ended=1001.0, cpu_time=6.0), run("r1", cpu_time=9.0)])
        await store.write([run("r1", "failed", ended=1002.0), run("r1", cpu_time=9.0)])
    assert (await store.usage("ada", 0)).cpu_time == 6.0


async def test_trimming_keeps_the_newest_and_what_still_runs(store: Store) -> None:
    await store.write([run(f"r{number:04}", "done", started=float(number)) for number in range(1200)])
    await store.write([run("alive", started=0.0)])
    await store.write([audit(f"a{number:02}", time=1200.0 + number) for number in range(20)])
    await store.trim(max_runs=5, max_audit=7, before=0.0)
    assert [each.id for each in (await store.runs("ada", limit=50))[0]] == [
        *(f"r{number:04}" for number in reversed(range(1195, 1200))),
        "alive",
    ]
    assert [each.id for each in (await store.audit(limit=50))[0]] == [f"a{number:02}" for number in range(19, 12, -1)]


async def test_trimming_removes_what_is_old(store: Store) -> None:
    await store.write([run(f"r{number}", "done", started=float(number)) for number in range(6)])
    await store.write([audit(f"a{number}", time=float(number)) for number in range(6)])
    await store.write(
        [
            sandbox("old", "ended", created=1.0, metadata={"a": "b"}),
            sandbox("files", "lost", created=1.0, persistent=True, workspace="/w"),
            sandbox("alive", created=1.0),
            sandbox("new", "ended", created=5.0),
        ]
    )
    await store.trim(max_runs=100, max_audit=100, before=4.0)
    assert [each.id for each in (await store.runs("ada", limit=50))[0]] == ["r5", "r4"]
    assert [each.id for each in (await store.audit(limit=50))[0]] == ["audit_r5", "a5", "audit_r4", "a4"]
    assert {each.id for each in (await store.sandboxes("ada", limit=50))[0]} == {"files", "alive", "new"}


async def test_trimmed_runs_stay_counted_in_usage(store: Store) -> None:
    today = time.time() // DAY_S * DAY_S
    await store.write([run(f"r{n}", "done", started=today + n / 10, cpu_time=0.5, bytes_moved=3) for n in range(8)])
    before = await store.usage("ada", today), await store.usage_by_day("ada", 2)
    assert before[0] == UsageTotal(8, 4.0, 24)
    for left in (5, 2):
        await store.trim(max_runs=left, max_audit=10, before=0.0)
        assert len((await store.runs("ada", limit=50))[0]) == left
        assert (await store.usage("ada", today), await store.usage_by_day("ada", 2)) == before
