"""Stored secrets, as E2B's clients manage them.  A client names one in a header of `network.rules` (network.py)."""

from __future__ import annotations

from typing import Any

from cloche.doors.e2b.answers import Refusal
from cloche.doors.e2b.requests import ControlOperation, ControlOperations, ControlRequest, Place, Reply, paged, texts
from cloche.doors.e2b.times import instant, moment
from cloche.doors.routing.access import Access
from cloche.model.records import StoredSecret
from cloche.service.service import Service


class SecretRoutes:
    def __init__(self, service: Service) -> None:
        self._secrets = service.secrets

    def operations(self) -> ControlOperations:
        return {
            ("GET", "secrets"): ControlOperation(self._list, Access("read")),
            ("POST", "secrets"): ControlOperation(self._create, Access("run", "json")),
            ("GET", "secrets", ""): ControlOperation(self._info, Access("read")),
            ("POST", "secrets", ""): ControlOperation(self._update, Access("run", "json")),
            ("DELETE", "secrets", ""): ControlOperation(self._remove, Access("run", "none")),
        }

    async def _list(self, request: ControlRequest) -> Reply:
        known = list(await self._secrets.list(request.caller))
        return paged(request, known, lambda one: Place(instant(one.created), one.id), _json, ascending=True)

    async def _create(self, request: ControlRequest) -> Reply:
        body = await request.body()
        made = await self._secrets.create(request.caller, _text(body, "name"), _text(body, "value"), _metadata(body))
        return Reply(201, _json(made))

    async def _info(self, request: ControlRequest) -> Reply:
        return Reply(200, _json(await self._secrets.find(request.caller, request.name)))

    async def _update(self, request: ControlRequest) -> Reply:
        body = await request.body()
        changed = await self._secrets.update(request.caller, request.name, _text(body, "value"), _metadata(body))
        return Reply(200, _json(changed))

    async def _remove(self, request: ControlRequest) -> Reply:
        await self._secrets.remove(request.caller, request.name)
        return Reply()


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise Refusal(400, f"{name} is a text.")
    return value


def _metadata(body: dict[str, Any]) -> dict[str, str] | None:
    return None if body.get("metadata") is None else texts(body, "metadata")


def _json(secret: StoredSecret) -> dict[str, Any]:
    return {
        "secretID": secret.id,
        "name": secret.name,
        "currentVersion": secret.version,
        "metadata": secret.metadata,
        "createdAt": moment(secret.created),
        "updatedAt": moment(secret.updated),
    }
