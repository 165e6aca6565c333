"""Stored secrets: encrypted, each owner's own, with one winner for a name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cloche.configuration import load
from cloche.errors import Gone, InvalidRun, Refused, SandboxFailed
from cloche.model.network import Network
from cloche.model.secret import Secret
from cloche.policy.caller import Caller
from cloche.service import secrets
from cloche.service.encryption import Encryption, Unreadable
from cloche.service.service import Service

ADA, BOB = (Caller(f"key_{owner}", owner, frozenset(("run",))) for owner in ("ada", "bob"))
CANARY = "canary-5b1e77"


async def opened(folder: Path) -> Service:
    return await Service.open(load({"data_dir": str(folder)}, environ={"HOME": str(folder)}).value)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    service = await opened(tmp_path)
    yield service
    await service.close()


def policy(stored: str) -> Network:
    host = "api.example.org"
    return Network(
        allow=[host],
        secrets={"KEY": Secret("", [host], variable=False, stored=stored)},
        headers={host: {"X-Key": "${KEY}", "X-Plain": "yes"}},
    )


async def test_a_secret_outlives_the_server_and_is_nowhere_in_its_files(tmp_path: Path) -> None:
    first = await opened(tmp_path)
    made = await first.secrets.create(ADA, "API-Key", CANARY, {"env": "test"})
    assert (made.name, made.version) == ("api-key", 1)
    await first.close()
    second = await opened(tmp_path)
    try:
        assert await second.secrets.find(ADA, made.id) == await second.secrets.find(ADA, "Api-Key")
        filled = await second.secrets.filled("ada", policy("api-key"))
        assert filled.secrets["KEY"].value == CANARY
        assert CANARY not in f"{made}{filled}{filled.as_dict()}"
        assert (tmp_path / "secrets-key").stat().st_mode & 0o777 == 0o600
        assert [path for path in tmp_path.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()] == []
    finally:
        await second.close()


async def test_with_another_key_a_value_cannot_be_read_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    first = await opened(tmp_path)
    await first.secrets.create(ADA, "api-key", CANARY)
    await first.close()
    (tmp_path / "secrets-key").unlink()
    second = await opened(tmp_path)
    try:
        with pytest.raises(SandboxFailed, match="api-key"):
            await second.secrets.filled("ada", policy("api-key"))
        await second.secrets.update(ADA, "api-key", CANARY)
        assert (await second.secrets.filled("ada", policy("api-key"))).secrets["KEY"].value == CANARY
    finally:
        await second.close()


async def test_an_owner_has_no_use_of_anothers_secret(service: Service) -> None:
    made = await service.secrets.create(ADA, "api-key", CANARY)
    await service.secrets.create(BOB, "api-key", "another")
    for which in (made.id, "missing"):
        with pytest.raises(Gone):
            await service.secrets.find(BOB, which)
        with pytest.raises(Gone):
            await service.secrets.remove(BOB, which)
    assert [one.owner for one in await service.secrets.list(BOB)] == ["bob"]
    await service.secrets.remove(BOB, "api-key")
    with pytest.raises(InvalidRun, match="no secret"):
        await service.secrets.filled("bob", policy("api-key"))
    left = await service.secrets.filled("bob", policy("api-key"), drops_missing=True)
    assert (left.secrets, left.headers) == ({}, {"api.example.org": {"X-Plain": "yes"}})


async def test_of_requests_at_once_one_gets_the_name_and_none_passes_the_bound(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "MOST", 4)
    made = await asyncio.gather(
        *(service.secrets.create(ADA, "same", CANARY) for _ in range(5)),
        *(service.secrets.create(ADA, f"name {number}", CANARY) for number in range(5)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, Refused) for each in made) == 6
    assert len(await service.secrets.list(ADA)) == 4
    versions = await asyncio.gather(*(service.secrets.update(ADA, "same", CANARY) for _ in range(5)))
    assert sorted(each.version for each in versions) == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("name", "value", "metadata"),
    [
        ("", "x", None),
        ("a}", "x", None),
        ("a\n", "x", None),
        ("a", "", None),
        ("a", "x\r\nHost: y", None),
        ("a", "é", None),
        ("a", "x", {"k": "v" * 1025}),
        ("a", "x", {str(number): "" for number in range(33)}),
    ],
)
async def test_what_cannot_be_stored_is_refused(
    service: Service, name: str, value: str, metadata: dict[str, str] | None
) -> None:
    with pytest.raises(InvalidRun):
        await service.secrets.create(ADA, name, value, metadata)


def test_a_text_is_decrypted_in_its_place_alone(tmp_path: Path) -> None:
    encryption = Encryption(tmp_path / "key")
    encrypted = encryption.encrypt(CANARY, "here")
    assert encryption.decrypt(encrypted, "here") == CANARY
    assert encryption.encrypt(CANARY, "here") != encrypted
    for place, text in (("there", encrypted), ("here", encrypted[:-8] + "AAAAAAA=")):
        with pytest.raises(Unreadable):
            encryption.decrypt(text, place)
