"""The queue before a run: bounded, fair between keys, and never stuck."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import pytest
from tests.waiting import eventually_async

from cloche.policy.refusals import Busy
from cloche.service.admission import Admission
from cloche.service.host_memory import HostMemory

MB = 1 << 20
PLENTY = 1 << 40


def admission(
    runs=1, queue=100, wait_s=30.0, reserve=0, available=lambda: PLENTY, now=time.monotonic, keys=None
) -> Admission:
    return Admission(runs, queue, wait_s, reserve, available, now=now, keys=lambda: keys)


class Crowd:
    """Runs that wait for a slot, say when they have it, and keep it until told to end."""

    def __init__(self, door: Admission) -> None:
        self.door = door
        self.entered: list[str] = []
        self.refused: list[tuple[str, Busy]] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def add(self, name: str, key: str, memory: int = 512 * MB) -> None:
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._run(name, key, memory))
        await settle()

    async def _run(self, name: str, key: str, memory: int) -> None:
        try:
            async with self.door.slot(key, memory, 1.0):
                self.entered.append(name)
                await self._ends[name].wait()
        except Busy as refusal:
            self.refused.append((name, refusal))

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self.tasks[name]
        await settle()

    async def end_all(self) -> None:
        for event in self._ends.values():
            event.set()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def crowd():
    return Crowd(admission())


def counts(door: Admission) -> tuple[int, int]:
    state = door.state()
    assert sum(state.waiting_by_key.values()) == state.waiting
    return state.running, state.waiting


# Turns


async def test_as_many_run_at_once_as_may():
    crowd = Crowd(admission(runs=2))
    for name in "abc":
        await crowd.add(name, "key")

    assert crowd.entered == ["a", "b"]
    assert counts(crowd.door) == (2, 1)
    assert crowd.door.state().cpu == 2.0
    await crowd.end("b")
    assert crowd.entered == ["a", "b", "c"]
    await crowd.end_all()
    assert counts(crowd.door) == (0, 0)
    assert (crowd.door.state().cpu, crowd.door.state().waiting_by_key) == (0.0, {})


async def test_a_key_with_many_waiting_does_not_delay_anothers_first(crowd):
    await crowd.add("a", "many")
    for number in range(50):
        await crowd.add(f"many{number}", "many")
    await crowd.add("one", "few")
    await crowd.add("two", "few")
    assert crowd.door.state().waiting_by_key == {"many": 50, "few": 2}

    order = []
    for _ in range(6):
        await crowd.end(crowd.entered[-1])
        order.append(crowd.entered[-1])

    assert order == ["many0", "one", "many1", "two", "many2", "many3"]
    await crowd.end_all()


async def test_who_waits_is_not_passed_by_who_comes_later():
    door = admission(runs=2, available=lambda: 0)
    crowd = Crowd(door)
    await crowd.add("a", "x")
    await crowd.add("b", "x")
    door._memory._free = float(PLENTY)  # there is room again, and nobody has noticed yet

    await crowd.add("c", "x")

    assert crowd.entered == ["a", "b"]
    await crowd.end_all()


# Shares


@pytest.mark.parametrize("runs", [2, 3, 4, 8, 16, 32, 100])
async def test_a_key_that_wants_everything_leaves_a_place_for_another(runs):
    crowd = Crowd(admission(runs, queue=runs, keys=2))
    for number in range(runs + 1):
        await crowd.add(f"greedy{number}", "greedy")
    begun = len(crowd.entered)
    assert max(1, runs // 2) <= begun < runs

    await crowd.add("first", "modest")

    assert crowd.entered[begun:] == ["first"]
    assert not crowd.refused  # with a place free, nobody is turned away from a full queue
    await crowd.end_all()


async def test_five_keys_that_want_everything_all_run_whatever_the_order():
    crowd = Crowd(admission(runs=32, queue=1000, keys=5))
    for key in "abcde":
        for number in range(40):
            await crowd.add(f"{key}{number}", key)
    assert {name[0] for name in crowd.entered} == set("abcde")

    for name in list(crowd.entered):  # every run that began first ends: the places go to who has fewest
        await crowd.end(name)
    under_way = [name[0] for name in crowd.entered[-crowd.door.state().running :]]
    shares = sorted(under_way.count(key) for key in "abcde")
    assert shares[0] >= 3
    assert shares[-1] - shares[0] <= 4
    await crowd.end_all()


async def test_keys_with_one_run_each_share_all_places():
    crowd = Crowd(admission(runs=5, keys=6))
    for key in "abcdef":
        await crowd.add(key, key)
    assert crowd.entered == list("abcde")

    await crowd.end("b")

    assert crowd.entered[-1] == "f"
    await crowd.end_all()


async def test_a_free_place_goes_to_the_key_with_the_fewest_runs():
    crowd = Crowd(admission(runs=12, keys=2))
    for number in range(10):
        await crowd.add(f"many{number}", "many")
    for number in range(5):
        await crowd.add(f"few{number}", "few")
    assert crowd.entered == [*(f"many{number}" for number in range(8)), "few0", "few1", "few2"]

    await crowd.end("many0")
    await crowd.end("many1")

    assert crowd.entered[11:] == ["few3", "few4"]
    await crowd.end_all()


@pytest.mark.parametrize(("keys", "runs", "begun"), [(None, 8, 8), (1, 8, 7), (1, 3, 3), (1, 1, 1), (2, 1, 1)])
async def test_a_key_without_rivals_may_have_almost_everything(keys, runs, begun):
    crowd = Crowd(admission(runs=runs, keys=keys))
    for number in range(10):
        await crowd.add(str(number), "key")

    assert len(crowd.entered) == begun
    assert crowd.door._recheck is None  # places are missing, not memory
    await crowd.end_all()


async def test_a_first_run_may_use_half_of_the_memory_that_is_kept_free():
    left = [1300 * MB]
    crowd = Crowd(admission(runs=8, reserve=1000 * MB, available=lambda: left[0], now=lambda: 0.0, keys=3))
    for number in range(6):
        await crowd.add(f"greedy{number}", "greedy")
    assert crowd.entered == [f"greedy{number}" for number in range(4)]

    await crowd.add("first", "modest")
    await crowd.add("second", "modest")

    assert crowd.entered[4:] == ["first"]
    await crowd.end_all()


# Bounds


async def test_a_full_queue_refuses_at_once():
    crowd = Crowd(admission(runs=1, queue=2))
    for name in "abcd":
        await crowd.add(name, "key")

    ((name, refusal),) = crowd.refused
    assert name == "d"
    assert "1 runs are running and 2 are waiting" in refusal.message
    assert refusal.retry_after >= 1
    assert refusal.hint
    await crowd.end_all()


async def test_without_a_queue_nobody_waits():
    crowd = Crowd(admission(runs=1, queue=0))
    await crowd.add("a", "key")
    await crowd.add("b", "other")

    assert [name for name, _ in crowd.refused] == ["b"]
    await crowd.end_all()


async def test_a_full_queue_is_shared_between_keys():
    crowd = Crowd(admission(runs=1, queue=4))
    await crowd.add("running", "many")
    for number in range(4):
        await crowd.add(f"many{number}", "many")
    for number in range(3):
        await crowd.add(f"few{number}", "few")
    await crowd.add("third", "third")

    assert [name for name, _ in crowd.refused] == ["many3", "many2", "few2", "many1"]
    assert crowd.door.state().waiting_by_key == {"many": 1, "few": 2, "third": 1}
    await crowd.end_all()


async def test_who_has_waited_too_long_is_refused():
    crowd = Crowd(admission(wait_s=0.05))
    await crowd.add("a", "key")
    await crowd.add("b", "key")

    await crowd.tasks["b"]

    ((name, refusal),) = crowd.refused
    assert (name, "waited 0.05 s" in refusal.message) == ("b", True)
    assert counts(crowd.door) == (1, 0)
    await crowd.end_all()


async def test_advice_grows_with_the_queue():
    crowd = Crowd(admission(runs=1, queue=20))
    for number in range(22):
        await crowd.add(str(number), "key")

    assert 10 < crowd.refused[0][1].retry_after <= 60
    await crowd.end_all()


async def test_closing_hands_back_who_waits_and_lets_nobody_in(crowd):
    for name in "abc":
        await crowd.add(name, "key")

    crowd.door.close()
    await settle()
    await crowd.add("late", "key")

    assert crowd.entered == ["a"]
    assert [name for name, _ in crowd.refused] == ["b", "c", "late"]
    assert all("shutting down" in refusal.message for _, refusal in crowd.refused)
    await crowd.end_all()
    assert counts(crowd.door) == (0, 0)


# Memory


async def test_one_run_is_let_in_however_little_memory_there_is():
    crowd = Crowd(admission(runs=4, available=lambda: 0))
    await crowd.add("a", "key")
    await crowd.add("b", "key")
    assert crowd.entered == ["a"]

    await crowd.end("a")

    assert crowd.entered == ["a", "b"]
    await crowd.end_all()


async def test_the_reserve_is_kept_and_little_is_counted_per_run():
    crowd = Crowd(admission(runs=100, reserve=1000 * MB, available=lambda: (1000 + 64 * 3 + 63) * MB, now=lambda: 0.0))
    for number in range(5):
        await crowd.add(str(number), "key", memory=8 << 30)

    assert crowd.entered == ["0", "1", "2"]
    await crowd.end_all()


async def test_a_small_limit_counts_as_what_it_is():
    crowd = Crowd(admission(runs=100, available=lambda: 100 * MB, now=lambda: 0.0))
    for number in range(6):
        await crowd.add(str(number), "key", memory=20 * MB)

    assert crowd.entered == ["0", "1", "2", "3", "4"]
    await crowd.end_all()


async def test_where_memory_is_unknown_only_the_number_counts():
    crowd = Crowd(admission(runs=3, available=lambda: None))
    for name in "abcd":
        await crowd.add(name, "key")

    assert crowd.entered == ["a", "b", "c"]
    await crowd.end_all()


async def test_more_memory_is_noticed_without_a_run_that_ends():
    left = [0]
    door = admission(runs=4, available=lambda: left[0])
    crowd = Crowd(door)
    await crowd.add("a", "key")
    await crowd.add("b", "key")
    left[0] = PLENTY

    await eventually_async(lambda: len(crowd.entered) == 2)

    assert crowd.entered == ["a", "b"]
    assert door._recheck is None
    await crowd.end_all()


async def test_memory_of_short_runs_is_given_back():
    door = admission(runs=10, available=lambda: 200 * MB)
    start = time.monotonic()
    async with door.slot("key", 64 * MB):
        for _ in range(1000):
            async with door.slot("key", 64 * MB):
                pass

    assert time.monotonic() - start < 5  # a hundred rechecks would take ten seconds


async def test_who_was_let_in_counts_until_its_memory_can_be_measured():
    clock = [100.0]
    crowd = Crowd(admission(runs=100, available=lambda: 128 * MB, now=lambda: clock[0]))
    await crowd.add("a", "key")
    await crowd.add("b", "key")
    clock[0] += 0.2  # measured anew, but too early for what they need
    await crowd.add("c", "key")
    assert crowd.entered == ["a", "b"]

    clock[0] += 5.0  # they do not need it, it turns out
    await crowd.add("d", "key")

    assert sorted(crowd.entered) == ["a", "b", "c", "d"]
    await crowd.end_all()


async def test_what_ended_before_the_memory_was_measured_is_not_given_back_twice():
    clock = [100.0]
    crowd = Crowd(admission(runs=100, available=lambda: 128 * MB, now=lambda: clock[0]))
    for name in "ab":
        await crowd.add(name, "key")
    clock[0] += 5.0
    for name in "cd":
        await crowd.add(name, "key")
    await crowd.add("e", "key")
    assert crowd.entered == ["a", "b", "c", "d"]

    await crowd.end("a")  # what it took was in the measurement already
    assert crowd.entered == ["a", "b", "c", "d"]
    await crowd.end("d")

    assert crowd.entered == ["a", "b", "c", "d", "e"]
    await crowd.end_all()


async def test_memory_is_measured_now_and_then_only():
    asked = []

    def measure() -> int:
        asked.append(time.monotonic())
        return PLENTY

    door = admission(runs=10, available=measure)
    start = time.monotonic()
    async with door.slot("key", 64 * MB):
        for _ in range(1000):
            async with door.slot("key", 64 * MB):
                pass

    assert 1 <= len(asked) <= 2 + (time.monotonic() - start) / 0.1


# Cancelling


async def test_a_cancelled_waiter_leaves_no_trace(crowd):
    for name in "abc":
        await crowd.add(name, "key")

    crowd.tasks["b"].cancel()
    await settle()
    assert counts(crowd.door) == (1, 1)
    await crowd.end("a")

    assert crowd.entered == ["a", "c"]
    await crowd.end_all()
    assert counts(crowd.door) == (0, 0)


async def test_a_waiter_that_is_cancelled_when_it_is_let_in_passes_its_turn_on(crowd):
    for name in "abc":
        await crowd.add(name, "key")

    crowd._ends["a"].set()
    while not crowd.tasks["a"].done():
        await asyncio.sleep(0)
    assert crowd.door.state().running == 1  # b's, which has not noticed yet
    assert crowd.entered == ["a"]
    crowd.tasks["b"].cancel()
    await settle()

    assert crowd.entered == ["a", "c"]
    await crowd.end_all()
    assert counts(crowd.door) == (0, 0)


async def test_a_run_that_fails_gives_its_slot_back():
    door = admission()
    with pytest.raises(ZeroDivisionError):
        async with door.slot("key", MB):
            _ = 1 / 0

    assert counts(door) == (0, 0)


async def test_nothing_is_lost_in_a_crowd_that_changes_its_mind():
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    left = [PLENTY]
    door = admission(runs=5, queue=40, wait_s=0.05, available=lambda: left[0])
    running = most = 0
    outcomes: list[str] = []

    async def run(key: str) -> None:
        nonlocal running, most
        try:
            async with door.slot(key, 64 * MB):
                running += 1
                most = max(most, running)
                try:
                    await asyncio.sleep(chance.random() * 0.01)
                finally:
                    running -= 1
            outcomes.append("ran")
        except Busy:
            outcomes.append("busy")
        except asyncio.CancelledError:
            outcomes.append("cancelled")
            raise

    tasks = []
    for _ in range(600):
        tasks.append(asyncio.create_task(run(chance.choice("abcd"))))
        left[0] = chance.choice([PLENTY, PLENTY, 0])
        if chance.random() < 0.3:
            chance.choice(tasks).cancel()
        if chance.random() < 0.5:
            await asyncio.sleep(chance.random() * 0.004)
    await asyncio.gather(*tasks, return_exceptions=True)

    never_begun = sum(task.cancelled() for task in tasks) - outcomes.count("cancelled")
    assert len(outcomes) + never_begun == 600, f"seed {seed}"
    assert (running, counts(door)) == (0, (0, 0)), f"seed {seed}"
    assert most <= 5
    assert min(outcomes.count("ran"), outcomes.count("cancelled")) > 0, f"seed {seed}"


# The host's memory


def host(folder: Path, cgroup: str, mountinfo: str = "") -> HostMemory:
    (folder / "self").mkdir(parents=True)
    (folder / "meminfo").write_text("MemTotal:       8000 kB\nMemFree:  1 kB\nMemAvailable:       4000 kB\n")
    (folder / "self" / "cgroup").write_text(cgroup)
    (folder / "self" / "mountinfo").write_text(mountinfo)
    return HostMemory(folder)


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_this_host_has_some_memory():
    left = HostMemory()()

    assert left is not None
    assert 1 << 20 < left < 1 << 50


def test_without_groups_the_host_decides(tmp_path):
    assert host(tmp_path / "proc", "")() == 4000 * 1024


def test_where_nothing_can_be_read_nothing_is_known(tmp_path):
    assert HostMemory(tmp_path / "none")() is None


@pytest.mark.parametrize(("limit", "left"), [("max\n", 4000 * 1024), ("1000000\n", 700_000), ("500000\n", 200_000)])
def test_a_group_of_version_2(tmp_path, limit, left):
    tree = tmp_path / "cgroup"
    files = {"memory__current": "400000\n", "memory__stat": "anon 5\ninactive_file 100000\nactive_file 7\n"}
    group(tree / "a" / "b", memory__max=limit, **files)
    mount = f"30 24 0:26 / {tree} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

    assert host(tmp_path / "proc", "0::/a/b\n", mount)() == left


def test_a_group_above_limits_too(tmp_path):
    tree = tmp_path / "cgroup"
    group(tree / "a", memory__max="600000", memory__current="500000", memory__stat="")
    group(tree / "a" / "b", memory__max="max", memory__current="400000", memory__stat="")
    mount = f"30 24 0:26 / {tree} rw - cgroup2 cgroup2 rw\n"

    assert host(tmp_path / "proc", "0::/a/b\n", mount)() == 100_000


def test_a_group_of_version_1(tmp_path):
    tree = tmp_path / "memory"
    stat = "inactive_file 1\ntotal_inactive_file 50000\n"
    files = {"memory__usage_in_bytes": "400000", "memory__stat": stat}
    group(tree, memory__limit_in_bytes="9223372036854771712", **files)
    group(tree / "docker" / "x", memory__limit_in_bytes="1000000", **files)
    mounts = (
        f"31 24 0:27 / {tmp_path / 'cpu'} rw - cgroup cgroup rw,cpu,cpuacct\n"
        f"32 24 0:28 / {tree} rw - cgroup cgroup rw,memory\n"
    )

    assert host(tmp_path / "proc", "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n0::/\n", mounts)() == 650_000


@pytest.mark.parametrize("root", ["/docker/x", "/../.."])
def test_a_container_sees_its_group_as_the_top(tmp_path, root):
    tree = tmp_path / "memory"
    group(tree, memory__limit_in_bytes="1000000", memory__usage_in_bytes="400000", memory__stat="")
    mount = f"32 24 0:28 {root} {tree} rw - cgroup cgroup rw,memory\n"

    assert host(tmp_path / "proc", "4:memory:/docker/x\n", mount)() == 600_000


def test_a_group_that_is_over_its_limit_has_nothing_left(tmp_path):
    group(tmp_path / "cgroup", memory__max="1", memory__current="400000", memory__stat="")
    mount = f"30 24 0:26 / {tmp_path / 'cgroup'} rw - cgroup2 cgroup2 rw\n"

    assert host(tmp_path / "proc", "0::/\n", mount)() == 0
