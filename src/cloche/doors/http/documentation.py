"""The documentation page: the OpenAPI description as HTML, without scripts or external resources."""

from __future__ import annotations

from html import escape
from json import dumps
from typing import Any

Schema = dict[str, Any]

_METHODS = ("get", "head", "post", "put", "patch", "delete")
_STYLE = """
:root{color-scheme:light dark;--line:#8883;--soft:#8881;--dim:#777;--get:#1a7f4b;--post:#2760c4;--put:#a05a00;
--patch:#7a3fb0;--delete:#b3261e}
@media(prefers-color-scheme:dark){:root{--dim:#999;--get:#5fce95;--post:#82aefc;--put:#eaab5a;--patch:#c69bf0;
--delete:#f08b84}}
*{box-sizing:border-box}html{scroll-padding-top:1rem}
body{margin:0;font:15px/1.55 system-ui,sans-serif;display:grid;grid-template-columns:15rem minmax(0,1fr)}
nav{position:sticky;top:0;height:100vh;overflow:auto;padding:1.5rem 1rem;border-right:1px solid var(--line)}
nav a{display:block;padding:.15rem .4rem;border-radius:.3rem;color:inherit;text-decoration:none}
nav a:hover{background:var(--soft)}nav strong{display:block;margin:0 .4rem .6rem;font-size:1.1rem}
main{padding:1.5rem 2rem 4rem;max-width:62rem}h1{margin:0 0 .3rem;font-size:1.7rem}
h2{margin:2.2rem 0 .6rem;font-size:1.2rem;text-transform:capitalize}
code{font:13px/1.5 ui-monospace,Menlo,Consolas,monospace}p{margin:.4rem 0}
details{border:1px solid var(--line);border-radius:.5rem;margin:.45rem 0;overflow:hidden}
summary{padding:.5rem .8rem;cursor:pointer;display:flex;gap:.8rem;align-items:baseline;flex-wrap:wrap}
summary:hover,details[open]>summary{background:var(--soft)}details>div{padding:.4rem .9rem 1rem}
summary span{color:var(--dim)}b.m{font:700 12px/1 ui-monospace,monospace;width:3.6rem;text-transform:uppercase}
.get,.head{color:var(--get)}.post{color:var(--post)}.put{color:var(--put)}.patch{color:var(--patch)}
.delete{color:var(--delete)}
h3{font-size:.8rem;text-transform:uppercase;letter-spacing:.05em;color:var(--dim);margin:1.1rem 0 .3rem}
table{border-collapse:collapse;width:100%}td{border-top:1px solid var(--line);padding:.3rem .6rem .3rem 0;
vertical-align:top}td:first-child{white-space:nowrap;width:1%;padding-right:1.4rem}td small{color:var(--dim)}
@media(max-width:46rem){body{display:block}nav{position:static;height:auto;border:0}main{padding:1rem}}
"""


def page(description: Schema) -> str:
    about = description["info"]
    groups: dict[str, list[str]] = {}
    for path, operations in description["paths"].items():
        for method in _METHODS:
            if method in operations:
                tag = (operations[method].get("tags") or ["other"])[0]
                groups.setdefault(tag, []).append(_operation(method, path, operations[method]))
    schemas = description.get("components", {}).get("schemas", {})
    links = "".join(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in groups)
    parts = "".join(f'<h2 id="{escape(tag)}">{escape(tag)}</h2>{"".join(found)}' for tag, found in groups.items())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Cloche: HTTP</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f'<nav><strong>Cloche</strong>{links}<a href="#schemas">schemas</a>'
        '<a href="/openapi.json">openapi.json</a></nav>'
        f"<main><h1>Cloche {escape(about['version'])}</h1>{_prose(about.get('description', ''))}"
        f'{parts}<h2 id="schemas">schemas</h2>'
        f"{''.join(_schema(name, schemas[name]) for name in sorted(schemas))}</main>"
    )


def _operation(method: str, path: str, operation: Schema) -> str:
    parts = [_prose(operation.get("description", ""))]
    if operation.get("parameters"):
        parts.append("<h3>Parameters</h3>")
        parts.append(_table(_parameter(one) for one in operation["parameters"]))
    body = operation.get("requestBody", {}).get("content", {})
    if body:
        parts.append("<h3>Body</h3>")
        parts.append(
            _table((f"<code>{escape(kind)}</code>", _type(one.get("schema", {}))) for kind, one in body.items())
        )
    parts.append("<h3>Responses</h3>")
    parts.append(_table(_response(status, one) for status, one in operation["responses"].items()))
    return (
        f'<details><summary><b class="m {method}">{method}</b><code>{escape(path)}</code>'
        f"<span>{escape(operation.get('summary', ''))}</span></summary><div>{''.join(parts)}</div></details>"
    )


def _parameter(one: Schema) -> tuple[str, str]:
    schema = one.get("schema", {})
    words = escape(one.get("description") or schema.get("description") or "")
    required = "" if not one.get("required") or one["in"] == "path" else ", required"
    return f"<code>{escape(one['name'])}</code> <small>{one['in']}{required}</small>", f"{_type(schema)} {words}"


def _response(status: str, one: Schema) -> tuple[str, str]:
    kinds = [
        f"<small>{escape(kind)}</small> {_type(content.get('schema', {}))}"
        for kind, content in one.get("content", {}).items()
    ]
    return f"<code>{escape(status)}</code>", "<br>".join([escape(one.get("description", "")), *kinds])


def _schema(name: str, schema: Schema) -> str:
    required = schema.get("required", [])
    rows = []
    for key, field in schema.get("properties", {}).items():
        mark = " <small>required</small>" if key in required else ""
        default = field.get("default")
        note = "" if default is None else f" <small>default {escape(dumps(default))}</small>"
        rows.append(
            (f"<code>{escape(key)}</code>{mark}", f"{_type(field)}{note} {escape(field.get('description', ''))}")
        )
    about = schema.get("description", "")
    return (
        f'<details id="{escape(name)}"><summary><code>{escape(name)}</code><span>{escape(about)}</span></summary>'
        f"<div>{_table(rows)}</div></details>"
    )


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(_type(one) for one in schema[several])
    if "enum" in schema or "const" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return " or ".join(f"<code>{escape(dumps(choice))}</code>" for choice in choices)
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    inner = schema.get("additionalProperties")
    if isinstance(inner, dict):
        return f"object of {_type(inner)}"
    return escape(str(schema.get("type", "anything")))


def _table(rows: Any) -> str:
    return "<table>" + "".join(f"<tr><td>{left}<td>{right}" for left, right in rows) + "</table>"


def _prose(text: str) -> str:
    pieces = escape(text).split("`")
    shown = "".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(pieces))
    return f"<p>{shown}</p>" if text else ""
