"""Routes that carry the declaration of their access: HTTP operations, ASGI applications and WebSockets."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import FastAPI
from fastapi.routing import APIRoute, _endpoint_context_cache
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp

from cloche.doors.json_input import joined, read_json
from cloche.doors.routing.access import UNDECLARED, Access, AccessScope, BodyKind, StreamKind
from cloche.doors.routing.description import of_operation

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class _AnyPath(PathConvertor):
    """Matches the path of a file, which may contain line breaks."""

    regex = r"[\s\S]*"


register_url_convertor("file", _AnyPath())


class _JsonRequest(Request):
    """A request whose JSON is read like that of all other doors."""

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            self._body = await joined([piece async for piece in self.stream()])
        return self._body

    async def json(self) -> Any:
        return await read_json(await self.body())


class OperationRoute(APIRoute):
    """One operation of the HTTP interface."""

    access: Access = UNDECLARED

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        respond = super().get_route_handler()
        # With the first request, FastAPI would parse the module's source to find out where the function begins.
        code, name = self.endpoint.__code__, self.endpoint.__name__
        _endpoint_context_cache[id(self.endpoint)] = {
            "file": code.co_filename,
            "line": code.co_firstlineno,
            "function": name,
        }

        async def respond_to(request: Request) -> Response:
            return await respond(_JsonRequest(request.scope, request.receive))

        return respond_to


class ApplicationRoute(Route):
    """An ASGI application that answers every method at its address."""

    def __init__(
        self, path: str, app: ASGIApp, *, scope: AccessScope, body: BodyKind, name: str, stream: StreamKind = "none"
    ) -> None:
        super().__init__(path, app, include_in_schema=False, name=name)
        self.access = Access(scope, body, stream=stream)


class SocketRoute(WebSocketRoute):
    """A WebSocket; its messages have a limit of their own (server.py)."""

    def __init__(
        self, path: str, app: ASGIApp, *, scope: AccessScope, name: str, stream: StreamKind = "reader"
    ) -> None:
        super().__init__(path, app, name=name)
        self.access = Access(scope, stream=stream)


class Operations:
    """The HTTP operations of one module: `@operations.get(path, scope="read")` declares and registers one.

    FastAPI's own router would wrap the routes when they are included, and their declarations would be lost.

    The description calls an operation TAG_NAME, such as `sandboxes_create`: the module's tag and the function's name,
    unless the declaration has its own `tag` or `name`.  The summary is the first sentence of the docstring.
    """

    def __init__(
        self,
        prefix: str = "",
        *,
        tag: str = "",
        responses: dict[int | str, dict[str, Any]] | None = None,
        include_in_schema: bool = True,
    ) -> None:
        self._prefix, self._tag, self._responses = prefix, tag, responses or {}
        self._include_in_schema = include_in_schema
        self._declared: list[tuple[str, str, Callable[..., Any], Access, dict[str, Any]]] = []

    def install(self, app: FastAPI) -> None:
        """Register the operations with the application, in the order of their definition."""
        for method, path, endpoint, access, options in self._declared:
            options = {
                "response_class": Response,
                "response_description": "The request succeeded.",
                "include_in_schema": self._include_in_schema,
                **options,
            }
            options["responses"] = {**self._responses, **options.get("responses", {})}
            tag = options.pop("tag", self._tag)
            name = options.pop("name", endpoint.__name__)
            if options["include_in_schema"]:
                told = of_operation(method, self._prefix + path, access, endpoint.__doc__ or "")
                told["openapi_extra"] |= options.get("openapi_extra", {})
                options |= {**told, "operation_id": f"{tag}_{name}"}
            app.router.add_api_route(
                self._prefix + path,
                endpoint,
                methods=[method],
                tags=[tag] if tag else [],
                route_class_override=OperationRoute,
                **options,
            )
            route = app.router.routes[-1]
            assert isinstance(route, OperationRoute)
            route.access = access

    def get(self, path: str, **declared: Any) -> Callable[[Endpoint], Endpoint]:
        return self._declare("GET", path, **declared)

    def head(self, path: str, **declared: Any) -> Callable[[Endpoint], Endpoint]:
        return self._declare("HEAD", path, include_in_schema=False, **declared)

    def post(self, path: str, **declared: Any) -> Callable[[Endpoint], Endpoint]:
        return self._declare("POST", path, **declared)

    def put(self, path: str, **declared: Any) -> Callable[[Endpoint], Endpoint]:
        return self._declare("PUT", path, **declared)

    def patch(self, path: str, **declared: Any) -> Callable[[Endpoint], Endpoint]:
        return self._declare("PATCH", path, **declared)

    def delete(self, path: str, **declared: Any) -> Callable[[Endpoint], Endpoint]:
        return self._declare("DELETE", path, **declared)

    def _declare(
        self,
        method: str,
        path: str,
        *,
        scope: AccessScope | None = None,
        body: BodyKind = "none",
        linked: bool = False,
        stream: StreamKind = "none",
        **options: Any,  # `name` and `tag`, and FastAPI's: status_code, responses, openapi_extra …
    ) -> Callable[[Endpoint], Endpoint]:
        access = UNDECLARED if scope is None else Access(scope, body, linked, stream)

        def register(endpoint: Endpoint) -> Endpoint:
            self._declared.append((method, path, endpoint, access, options))
            return endpoint

        return register
