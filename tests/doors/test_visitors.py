"""Who has to go when there are too many connections."""

from __future__ import annotations

import pytest

from cloche.doors.visitors import Visitor, Visitors
from cloche.policy.refusals import Busy


class Door:
    """Lets visitors in, and notes in which order they had to leave."""

    def __init__(self, at_most: int) -> None:
        self.visitors = Visitors(at_most)
        self.gone: list[str] = []

    def come(self, name: str, address: str = "10.0.0.1", key: str = "") -> Visitor:
        visitor = self.visitors.arrive(address, lambda: self.gone.append(name))
        if key:
            visitor.show_key(key)
        return visitor


def test_strangers_have_an_eighth_and_keys_the_rest():
    door = Door(80)
    for number in range(100):
        door.come(f"s{number}")
        if number < 70:
            door.come(f"k{number}", key="key")
    assert door.visitors.counts() == (10, 70)
    assert not [name for name in door.gone if name.startswith("k")]


def test_an_address_with_many_strangers_displaces_its_own():
    door = Door(80)
    for name in ("ada", "bob"):
        door.come(name, name)
    for number in range(50):
        door.come(str(number), "10.6.6.6")
    assert door.gone == [str(number) for number in range(42)]


def test_addresses_of_one_ipv6_network_count_as_one():
    door = Door(80)
    door.come("ada", "2001:db8:1:1::7")
    for number in range(50):
        door.come(str(number), f"2001:db8:6:6::{number:x}")
    assert "ada" not in door.gone


def test_whoever_shows_a_key_is_no_stranger():
    door = Door(80)
    visitor = door.come("known")
    visitor.show_key("key")
    visitor.show_key("key")
    for number in range(50):
        door.come(str(number))
    assert "known" not in door.gone
    assert door.visitors.counts() == (10, 1)


def test_a_key_with_many_connections_gives_one_up_to_a_key_with_few():
    door = Door(16)
    many = [door.come(f"many{number}", key="many") for number in range(14)]
    many[3].is_idle = many[5].is_idle = True
    for number in range(4):
        door.come(f"few{number}", key="few")
    assert door.gone == ["many3", "many5", "many13", "many12"]  # idle ones first, then the newest


@pytest.mark.parametrize("others", [0, 6])
def test_a_key_with_a_fair_share_is_refused_more(others):
    door = Door(16)
    for number in range(others):
        door.come(f"other{number}", key="other")
    for number in range(14 - others):
        door.come(str(number), key="key")
    with pytest.raises(Busy) as caught:
        door.come("late", key="key")
    assert caught.value.retry_after
    assert not door.gone
    assert door.visitors.counts() == (1, 14)


def test_an_idle_connection_makes_way_for_another_of_the_same_key():
    door = Door(16)
    mine = [door.come(str(number), key="key") for number in range(14)]
    mine[7].is_idle = True
    door.come("next", key="key")
    assert door.gone == ["7"]


def test_whoever_was_displaced_is_not_counted_again():
    door = Door(8)
    first = door.come("first")
    door.come("second")
    assert door.gone == ["first"]
    first.show_key("key")  # its request was under way
    first.leave()
    assert door.visitors.counts() == (1, 0)
