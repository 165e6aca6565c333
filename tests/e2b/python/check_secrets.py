"""Secrets of E2B's client: their values are written and never read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from uuid import uuid4

import pytest

from e2b import AsyncSandbox, Secret, SecretException, SecretNotFoundException


@pytest.fixture
def name() -> Iterator[str]:
    """A name that nobody else uses."""
    chosen = f"key-{uuid4()}"
    yield chosen
    Secret.destroy(chosen)


def test_a_secret_is_made_changed_found_and_destroyed(name: str) -> None:
    made = Secret.create(name, "sk-test", metadata={"env": "test"})
    assert made.secret_id.startswith("sec_")
    assert (made.name, made.version, made.metadata) == (name, 1, {"env": "test"})
    assert isinstance(made.created_at, datetime)
    assert Secret.get_info(name) == Secret.get_info(made.secret_id) == made
    changed = Secret.update(made.secret_id, "sk-other")
    assert (changed.secret_id, changed.version, changed.metadata) == (made.secret_id, 2, {"env": "test"})
    assert changed.updated_at > made.updated_at
    assert Secret.update(name, "sk-third", metadata={}).metadata == {}
    assert Secret.exists(name)
    assert Secret.destroy(made.secret_id) is True
    assert not Secret.exists(name)


def test_secrets_come_in_pages(name: str) -> None:
    names = [f"{name}-{number}" for number in range(3)]
    for each in names:
        Secret.create(each, "value")
    pages = Secret.list(limit=2)
    seen: list[str] = []
    while pages.has_next:
        items = pages.next_items()
        assert len(items) <= 2
        seen += [item.name for item in items]
    assert [each for each in seen if each in names] == names
    for each in names:
        assert Secret.destroy(each)


def test_what_goes_wrong_is_told_in_the_clients_own_words(name: str) -> None:
    with pytest.raises(SecretNotFoundException):
        Secret.get_info(name)
    with pytest.raises(SecretNotFoundException):
        Secret.update(name, "value")
    assert Secret.destroy(name) is False
    Secret.create(name, "value")
    with pytest.raises(SecretException, match="already"):
        Secret.create(name.upper(), "value")
    with pytest.raises(SecretException, match="ASCII"):
        Secret.update(name, "two\nlines")


async def test_a_rule_names_a_secret_by_its_placeholder(name: str) -> None:
    headers = {"Authorization": f"Bearer {Secret.fill(name)}"}
    network = {"allow_out": ["one.example.org"], "rules": {"one.example.org": [{"transform": {"headers": headers}}]}}
    with pytest.raises(Exception, match="no secret"):
        await AsyncSandbox.create(network=network)
    Secret.create(name, "value")
    sandbox = await AsyncSandbox.create(network=network)
    try:
        info = await sandbox.get_info()
        assert info.network is not None
        assert info.network["rules"]["one.example.org"][0]["transform"]["headers"] == headers
        await sandbox.update_network({"rules": network["rules"]})
    finally:
        await sandbox.kill()
