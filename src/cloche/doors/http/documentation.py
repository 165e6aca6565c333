"""The API reference: the OpenAPI description as a page for people (docs/decisions/0028).

The page is complete without scripts; one script of ours adds a search and buttons that copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from json import dumps
from typing import Any

from starlette.responses import HTMLResponse

from cloche.doors.http.examples import example
from cloche.doors.page import plain

Schema = dict[str, Any]

_METHODS = ("post", "get", "put", "patch", "delete")
_FIRST_STEPS = (
    "export CLOCHE_URL=<span data-server>http://localhost:7500</span>\n"
    "export CLOCHE_API_KEY=$(cloche key)\n"
    'curl "$CLOCHE_URL/v1/run" -H "Authorization: Bearer $CLOCHE_API_KEY" \\\n'
    "  --json &#x27;{&quot;code&quot;: &quot;print(6 * 7)&quot;}&#x27;"
)


def page(description: Schema) -> HTMLResponse:
    """The whole reference."""
    about, schemas = description["info"], description["components"]["schemas"]
    groups: dict[str, list[tuple[str, str, Schema]]] = {tag["name"]: [] for tag in description["tags"]}
    for path, operations in description["paths"].items():
        for method in _METHODS:
            if method in operations:
                groups[operations[method]["tags"][0]].append((method, path, operations[method]))
    subjects = {tag["name"]: tag["description"] for tag in description["tags"] if groups[tag["name"]]}
    parts = "".join(
        f'<section id="{escape(name)}"><h2>{escape(name)}</h2><p>{_prose(told)}</p>'
        f"{''.join(_operation(*one, description) for one in groups[name])}</section>"
        for name, told in subjects.items()
    )
    shapes = "".join(_shape(name, schemas[name]) for name in sorted(schemas))
    body = (
        f'<header class="side"><a class="mark" href="/">{plain.BELL}<span class="name">Cloche</span></a>'
        '<label class="search"><input id="search" type="search" placeholder="Search operations" '
        f'aria-label="Search operations" autocomplete="off"><kbd aria-hidden="true">/</kbd></label>{_contents(groups)}'
        f'</header><main><div id="intro"><h1 class="name">HTTP API</h1>'
        f'<p class="lead">{_prose(about["description"])}</p>'
        f'<p>Version {escape(about["version"])}. Generators read <a href="/openapi.json">openapi.json</a>; their '
        "functions have the ids below as names, such as <code>sandboxes_create</code>.</p>"
        f"<p>First steps:</p>{_copied(_FIRST_STEPS)}</div>"
        f'<p id="nothing" role="status" hidden>No operation has all these words.</p>{parts}'
        f'<section id="shapes"><h2>Shapes</h2><p>The objects in bodies and answers.</p>{shapes}</section></main>'
    )
    return plain.response("HTTP API", body, part="reference")


def _contents(groups: dict[str, list[tuple[str, str, Schema]]]) -> str:
    parts = []
    for name, operations in groups.items():
        links = "".join(
            f'<li data-of="{one["operationId"]}"><a href="#{one["operationId"]}">{_verb(one["operationId"])}</a></li>'
            for _, _, one in operations
        )
        if links:
            heading = f'<strong><a href="#{escape(name)}">{escape(name)}</a></strong>'
            parts.append(f'<div data-subject="{escape(name)}">{heading}<ul>{links}</ul></div>')
    return f'<nav aria-label="Operations">{"".join(parts)}<a href="#shapes">Shapes</a></nav>'


def _verb(identity: str) -> str:
    """The name of an operation without its subject: `runs_stream_events` is "Stream events"."""
    return escape(identity.partition("_")[2].replace("_", " ").capitalize())


def _operation(method: str, path: str, operation: Schema, description: Schema) -> str:
    identity, summary = operation["operationId"], operation["summary"]
    scope = next((names[0] for one in operation["security"] for names in one.values()), "")
    words = escape(f"{identity} {method} {path} {summary} {operation['description']}".lower())
    inside = [
        f"<p>{_prose(operation['description'])}</p>",
        _copied(escape(example(method, path, operation, description))),
    ]
    if operation.get("parameters"):
        inside.append(f"<h3>Parameters</h3>{_table(_parameter(one) for one in operation['parameters'])}")
    for kind, one in operation.get("requestBody", {}).get("content", {}).items():
        inside.append(f"<h3>Body: <code>{escape(kind)}</code></h3>{_body(one.get('schema', {}), description)}")
    answers = sorted(operation["responses"].items(), key=lambda one: one[0].replace("X", "~"))
    inside.append(f"<h3>Answers</h3>{_table(_answer(status, one, description) for status, one in answers)}")
    return (
        f'<details class="pane" id="{identity}" data-words="{words}"><summary><b class="{method}">{method}</b>'
        f'<code>{escape(path)}</code><span class="scope">{f"scope {scope}" if scope else "no key"}</span>'
        f'<span class="about">{_prose(summary)}</span></summary><div class="inside">{"".join(inside)}'
        f'<p class="id">Operation id: <code>{identity}</code></p></div></details>'
    )


def _parameter(one: Schema) -> tuple[str, ...]:
    schema = one.get("schema", {})
    words = one.get("description") or schema.get("description") or ""
    needed = ", required" if one.get("required") and one["in"] != "path" else ""
    default = (
        f" <small>· default {escape(dumps(schema['default']))}</small>" if schema.get("default") is not None else ""
    )
    where = f"<code>{escape(one['name'])}</code> <small>{one['in']}{needed}</small>"
    return where, f"{_type(schema)}{default}", _prose(words)


def _body(schema: Schema, description: Schema) -> str:
    chosen = next((one for one in schema.get("anyOf", [schema]) if "$ref" in one), schema)
    if "$ref" in chosen:
        chosen = description["components"]["schemas"][chosen["$ref"].rpartition("/")[2]]
    if chosen.get("properties"):
        return _fields(chosen)
    return f"<p>{'The bytes themselves.' if chosen.get('format') == 'binary' or not chosen else _type(chosen)}</p>"


def _answer(status: str, one: Schema, description: Schema) -> tuple[str, ...]:
    if "$ref" in one:
        one = description["components"]["responses"][one["$ref"].rpartition("/")[2]]
    kinds = [
        f"<small>{escape(kind)}</small> {_type(content.get('schema', {}))}"
        for kind, content in one.get("content", {}).items()
        if "ProblemAnswer" not in str(content)
    ]
    return f"<code>{escape(status)}</code>", _prose(one.get("description", "")), "<br>".join(kinds)


def _shape(name: str, schema: Schema) -> str:
    about = schema.get("description", "")
    inside = _fields(schema) if schema.get("properties") else f"<p>{_type(schema)}</p>"
    return (
        f'<details class="pane" id="{escape(name)}" data-words="{escape(f"{name} {about}".lower())}"><summary><b></b>'
        f'<code>{escape(name)}</code><span class="about">{_prose(about)}</span></summary>'
        f'<div class="inside">{inside}</div></details>'
    )


def _fields(schema: Schema) -> str:
    rows = []
    for name, field in schema["properties"].items():
        note = ", required" if name in schema.get("required", []) else ""
        default = field.get("default")
        shown = f" <small>· default {escape(dumps(default))}</small>" if default not in (None, "", [], {}) else ""
        rows.append(
            (
                f"<code>{escape(name)}</code><small>{note}</small>",
                f"{_type(field)}{shown}",
                _prose(field.get("description", "")),
            )
        )
    return _table(rows)


def _type(schema: Schema) -> str:
    return f'<span class="type">{_type_inside(schema)}</span>'


def _type_inside(schema: Schema) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(_type_inside(one) for one in schema[several])
    if "enum" in schema or "const" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return " or ".join(f"<code>{escape(dumps(choice))}</code>" for choice in choices)
    if schema.get("type") == "array":
        return f"list of {_type_inside(schema.get('items', {}))}"
    inner = schema.get("additionalProperties")
    if isinstance(inner, dict):
        return f"object of {_type_inside(inner)}"
    return escape(str(schema.get("type", "anything")))


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    lines = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{one}</td>" for one in others)}</tr>'
        for first, *others in rows
    )
    return f'<div class="wide"><table>{lines}</table></div>'


def _copied(text: str) -> str:
    return f'<div class="copied"><pre>{text}</pre><button type="button">Copy</button></div>'


def _prose(text: str) -> str:
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(pieces))
