"""Describes a display by the one of its forms that says most in few words."""

from __future__ import annotations

import re
from binascii import a2b_base64

from cloche.model.result import CHART, TABLE
from cloche.results.charts import chart_text
from cloche.results.cleaning import harmless
from cloche.results.folding import KEPT, folded
from cloche.results.tables import table_text
from cloche.results.tokens import cut, estimate_tokens
from cloche.results.values import as_json, line, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.model.result import Display


def display_text(shown: Display, limit: int) -> str:
    """Describe a display in at most `limit` tokens."""
    forms = shown.mime if isinstance(shown.mime, dict) else {}
    try:
        if isinstance(forms.get(CHART), dict):
            return chart_text(forms[CHART], limit)
        if isinstance(forms.get(TABLE), dict):
            return table_text(forms[TABLE], limit)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        pass  # code can display data that only look like a chart or a table, with numbers of a thousand digits, say
    image = next((form for form in forms if isinstance(form, str) and form.startswith("image/")), None)
    if image is not None:
        return cut(_image(image, forms[image]), limit)
    text = forms.get("text/plain")
    if isinstance(text, str) and text and not text.startswith("<IPython.core.display"):
        head = _other_form(forms)
        return head + folded(text, limit - estimate_tokens(head))
    for form in ("text/markdown", "text/latex"):
        if isinstance(forms.get(form), str):
            return folded(forms[form], limit)
    if "application/json" in forms:
        return cut(harmless(as_json(forms["application/json"])), limit)
    if isinstance(forms.get("text/html"), str):
        return _html(forms["text/html"], limit)
    sizes = [_sized(form, value) for form, value in list(forms.items())[:10]]
    return cut(", ".join(sizes), limit)


def _image(form: str, value: Any) -> str:
    pixels = ""
    if form == "image/png" and isinstance(value, str):
        try:
            head = a2b_base64(value[:44])
        except ValueError:
            head = b""
        if head[:8] == b"\x89PNG\r\n\x1a\n" and len(head) >= 24:
            pixels = f"{int.from_bytes(head[16:20], 'big')}×{int.from_bytes(head[20:24], 'big')}, "  # noqa: RUF001
    length = _length(value) if form.endswith("+xml") else _length(value) * 3 // 4
    return f"[{line(form)} {pixels}{size(length)}]"


def _other_form(forms: dict[str, Any]) -> str:
    """Name the form beside the text that only a page can show."""
    if "text/html" in forms:
        return f"{_sized('html', forms['text/html'])} "
    form = next((form for form in forms if form.startswith("application/vnd.")), None)
    return f"{_sized(form, forms[form])} " if form else ""


def _html(html: str, limit: int) -> str:
    words = re.sub(r"<(?:style|script)\b[^<>]*>[^<]*|<[^<>]*>", " ", html[:KEPT], flags=re.IGNORECASE)
    head = f"{_sized('html', html)} "
    return head + cut(line(words, KEPT), limit - estimate_tokens(head))


def _sized(form: str, value: Any) -> str:
    return f"[{line(form)} {size(_length(value))}]"


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(as_json(value))
