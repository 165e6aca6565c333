"""Shows a result in a notebook: its output, pictures, tables and error, as HTML that is written here.

A page of a notebook has the notebook's origin, with its files and its kernels.  So nothing from a sandbox becomes
markup: text is escaped, a picture has to begin like one and is only ever the source of an `<img>`, and a table is built
from its description.  HTML, JavaScript, Markdown and LaTeX that the code displayed are shown as text
(docs/decisions/0026-results-in-notebooks.md).
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from html import escape

from cloche.model.result import TABLE
from cloche.results.cleaning import clean
from cloche.results.displays import display_text
from cloche.results.pictures import claimed_kind
from cloche.results.summary import summary
from cloche.results.values import as_list, dicts, line, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cloche.model.result import Display, Error, Raised, Result, StackFrame

MAX_TEXT = 20_000  # characters of one text, half of them from each end
MAX_DISPLAYS = 50
MAX_PICTURES = 16 << 20  # bytes of all pictures
MAX_ROWS, MAX_COLUMNS = 50, 50
_TOKENS = 2000  # of a display that is shown as text

_INTERACTIVE = {"application/vnd.plotly.": "Plotly", "application/vnd.vegalite.": "Altair"}
_LINE = "1px solid rgba(128,128,128,.35)"
_PRE = "margin:0;padding:2px 0;white-space:pre-wrap;overflow-wrap:anywhere;background:none"
_STDERR = f"{_PRE};border-left:2px solid #c0392b;padding-left:8px"
_CELL = f"padding:2px 8px;border-bottom:{_LINE};text-align:"
_ERROR = "border:1px solid #c0392b;border-radius:6px;padding:6px 10px;margin:4px 0"


def mime_bundle(result: Result) -> dict[str, str]:
    """Return a result in the forms among which a notebook chooses."""
    # Notebooks would typeset dollar signs in the text as formulas, so these classes turn that off.
    body = "".join(_parts(result))
    html = f'<div class="tex2jax_ignore mathjax_ignore">{body}</div>'
    return {"text/plain": summary(result), "text/html": html}


def _parts(result: Result) -> Iterator[str]:
    logs = result.logs or ()
    printed = [(log.stream, log.text) for log in logs] or [("stdout", result.stdout), ("stderr", result.stderr)]
    trace = ((result.error and result.error.traceback) or "").strip()
    for stream, text in _joined(printed):
        if stream == "stderr" and trace:  # a program has printed it, and the error below has it
            text = text.rstrip().removesuffix(trace)
        yield _text(text, _STDERR if stream == "stderr" else _PRE)
    room = MAX_PICTURES
    for number, shown in enumerate(result.results[:MAX_DISPLAYS]):
        picture = _picture(shown, room)
        room -= len(picture)
        whole = picture or _table(shown)
        yield whole or _text(_shown_text(shown), _PRE)
        if not whole and isinstance(shown.mime, dict) and "text/html" in shown.mime:
            yield _small(
                "Its HTML is not shown, because it would run in this notebook. If you trust the code: "
                f"IPython.display.display(result.results[{number}].mime, raw=True)"
            )
    if len(result.results) > MAX_DISPLAYS:
        yield _small(f"{len(result.results) - MAX_DISPLAYS} more displays are in its `results`.")
    if result.error is not None:
        yield _error(result.error)
    if result.artifacts:
        names = ", ".join(line(artifact.path.removeprefix("/sandbox/"), 100) for artifact in result.artifacts[:20])
        more = f" and {len(result.artifacts) - 20} more" if len(result.artifacts) > 20 else ""
        yield _small(f"Files: {names}{more}")
    if result.truncated:
        yield _small("The output was cut at its limit.")
    yield _small(summary(result, values=False))


def _joined(printed: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Join neighbouring pieces of the same stream; as many pieces as a person will read."""
    before, texts = "", list[str]()
    for stream, text in printed[:2000]:
        if stream != before and texts:
            yield before, "".join(texts)
            texts = []
        before = stream
        texts.append(text)
    if texts:
        yield before, "".join(texts)


def _text(text: str, style: str) -> str:
    text = text.rstrip("\n")
    if not text:
        return ""
    if len(text) > MAX_TEXT:
        half, hidden = MAX_TEXT // 2, len(text) - MAX_TEXT
        text = f"{text[:half]}\n… {hidden:,} characters left out …\n{text[-half:]}"
    return f'<pre style="{style}">{escape(clean(text))}</pre>'


def _small(text: str) -> str:
    return f'<div style="font-size:85%;opacity:.7">{escape(text)}</div>'


def _shown_text(shown: Display) -> str:
    """Return the text of a display, or a description of one that has no text."""
    forms = shown.mime if isinstance(shown.mime, dict) else {}
    for form, library in _INTERACTIVE.items():
        if any(isinstance(name, str) and name.startswith(form) for name in forms):
            return f"A chart of {library}"
    plain = forms.get("text/plain")
    if isinstance(plain, str) and plain and set(forms) == {"text/plain"}:
        return plain
    for form in ("text/markdown", "text/latex"):
        if isinstance(forms.get(form), str):
            return str(forms[form])
    return display_text(shown, _TOKENS)


def _picture(shown: Display, room: int) -> str:
    forms = shown.mime if isinstance(shown.mime, dict) else {}
    for form in ("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"):
        value = forms.get(form)
        if not isinstance(value, str) or len(value) > room:
            continue
        try:
            # Inside an <img>, a browser runs no script of an SVG and loads nothing for it.
            is_svg = form == "image/svg+xml"
            data = value.encode(errors="replace") if is_svg else a2b_base64(value)
        except ValueError:
            continue
        if is_svg or claimed_kind(data) == form:
            source = f"data:{form};base64,{b2a_base64(data, newline=False).decode()}"
            about = escape(line(forms.get("text/plain") or "picture", 100))
            return f'<img alt="{about}" src="{source}" style="max-width:100%;background:#fff">'
    return ""


def _table(shown: Display) -> str:
    table = shown.mime.get(TABLE) if isinstance(shown.mime, dict) else None
    if not isinstance(table, dict):
        return ""
    try:
        return _as_html(table)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return ""  # code can display data that only look like a table


def _as_html(table: dict[str, Any]) -> str:
    columns = dicts(table.get("columns"))[:MAX_COLUMNS]
    rows = as_list(table.get("rows"))[:MAX_ROWS]
    index = table["index"] if isinstance(table.get("index"), dict) else {}
    labels = as_list(index.get("values"))
    head = "".join(
        f'<th style="{_CELL}{_side(column)}" title="{escape(line(column.get("type", ""), 40))}">'
        f"{escape(line(column.get('name', ''), 60))}</th>"
        for column in columns
    )
    body = []
    for number, row in enumerate(rows):
        label = labels[number] if number < len(labels) else number
        label = ", ".join(map(short, label)) if isinstance(label, list) else short(label)
        cells = (
            f'<td style="{_CELL}{_side(column)}">{escape(short(value))}</td>'
            for column, value in zip(columns, as_list(row), strict=False)
        )
        body.append(f'<tr><th style="{_CELL}left">{escape(label)}</th>{"".join(cells)}</tr>')
    height, width = [*map(short, as_list(table.get("shape"))[:2]), "?", "?"][:2]
    note = f"{height} rows × {width} columns"  # noqa: RUF001
    if short(len(rows)) != height or short(len(columns)) != width:
        note += f"; the first {len(rows)} rows and {len(columns)} columns are shown"
    return (
        f'<div style="overflow-x:auto"><table style="border-collapse:collapse"><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>{_small(note)}"
    )


def _side(column: dict[str, Any]) -> str:
    is_number = str(column.get("type", "")).lower().startswith(("int", "uint", "float", "decimal"))
    return "right" if is_number else "left"


def _error(error: Error) -> str:
    name = f"{error.name}: " if error.name and not error.message.startswith(error.name) else ""
    head = f'<b style="color:#c0392b">{escape(clean(_short(f"{name}{error.message}")))}</b>'
    hint = f"<div>{escape(error.hint)}</div>" if error.hint else ""
    calls = "".join(map(_calls, error.raised))
    trace = _text(error.traceback or "", _PRE)
    fold = f'<details><summary style="cursor:pointer">Traceback</summary>{trace}</details>' if trace else ""
    return f'<div style="{_ERROR}">{head}{hint}{calls}{fold}</div>'


def _calls(raised: Raised) -> str:
    own = [frame for frame in raised.frames if frame.is_own][:10]
    earlier = {"cause": "Raised from ", "context": "Raised while handling "}.get(raised.link, "")
    about = f"{earlier}{line(raised.name)}: {line(raised.message)}\n" if earlier else ""
    return _text(about + "\n".join(map(_call, own)), _PRE)


def _call(frame: StackFrame) -> str:
    where = line(frame.file.removeprefix("/sandbox/")) if frame.file else f"cell {frame.cell}"
    inside = f", in {line(frame.function)}" if frame.function else ""
    return f"{where}, line {frame.line}{inside}" + (f":  {line(frame.code)}" if frame.code else "")


def _short(text: str) -> str:
    return text if len(text) <= 2000 else f"{text[:2000]}…"
