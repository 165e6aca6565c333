"""What a model should read of a run, within a budget of tokens.

The error comes first, with the line that it happened at and what to do about it; then the main result, what was
displayed, standard output and error, new files, tool calls, and notes.  Error and main result are served first; the
others share what is left: small ones whole, large ones in equal parts.  Wherever something is left out, a line that
begins with "…" says how much.  The same result and budget give the same text.

Everything in a result was written by code that nobody trusts.  So it is cleaned (no escape sequences, no control
characters, nothing invisible), never believed to have the shape it should have, and no line of it passes for one of our
headings.
"""

from __future__ import annotations

import re
from binascii import a2b_base64

from cloche.errors import InvalidRun
from cloche.model.result import CHART, TABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from cloche.model.result import Artifact, Display, Error, Result, ToolCall

    Render = Callable[[int], str]  # a section within so many tokens

LEAST = 50
_KEPT = 50_000  # characters at each end of a long text that are looked at
_HEADINGS = "error|result|chart|table|image|html|stdout|stderr|files|tools|note|left out"


def for_model(result: Result, budget: int = 2000) -> str:
    """The text for a model; `estimate_tokens` of it is never more than the budget."""
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < LEAST:
        raise InvalidRun(
            f"A budget of {budget!r} tokens is not possible.", f"Give a whole number of tokens, {LEAST} or more."
        )
    main = [shown for shown in result.results if shown.is_main]
    others = [shown for shown in result.results if not shown.is_main]
    error, stderr = result.error, result.stderr
    if error is not None and error.traceback:  # it is told as the error
        stderr = stderr.rstrip().removesuffix(error.traceback.strip())
    sections: dict[str, Render] = {}
    if error is not None:
        sections["error"] = lambda limit: _error(error, limit)
    if main:
        sections["result"] = lambda limit: _under("[result]", limit, lambda room: _display(main[-1], room))
    if others:
        sections["displays"] = lambda limit: _listed([_display(one, limit // 2) for one in others], limit, "displays")
    for name, output in (("stdout", result.stdout), ("stderr", stderr)):
        if output.strip():
            sections[name] = _output(name, output)
    if result.artifacts:
        files = [_file(artifact) for artifact in result.artifacts]
        sections["files"] = lambda limit: _under("[files]", limit, lambda room: _listed(files, room, "files"))
    if result.tool_calls:
        calls = [_tool_call(call) for call in result.tool_calls]
        sections["tools"] = lambda limit: _under("[tools]", limit, lambda room: _listed(calls, room, "calls"))
    if not sections:
        sections["nothing"] = lambda limit: _cut(
            f"The code ran and printed nothing. ({_seconds(result.duration)})", limit
        )
    notes = _notes(result)
    if notes:
        sections["notes"] = lambda limit: _cut("\n".join(f"[note] {note}" for note in notes), limit)
    return _shared_out(sections, budget)


# --- tokens


def estimate_tokens(text: str) -> int:
    """How many tokens a text is, rather too many than too few.

    Follows how tokenizers of the GPT family split text: a word is a token for each six letters, or part of six (after
    the twelfth letter for two and a half: such words are seldom words), capitals one for two; digits one for three;
    punctuation one for each mark, a repeated one for eight; space is free before a word or a mark, else a token for
    sixteen; other alphabets one a character, Chinese, Japanese and the like one and a half, emoji three.  So plain
    prose comes to 4 characters a token, code to 3, base64 to 1.7, numbers to 1.4.  Words of random letters are more
    tokens than this says.
    """
    return -(-sum(_cost(match) for match in _PIECES.finditer(text)) // 2)


_PIECES = re.compile(
    r" ?(?P<word>[A-Z]?[a-z]+)| ?(?P<capitals>[A-Z]+)|(?P<digits>[0-9]{1,3})|(?P<space>\s+?(?= ?[^\s0-9])|\s+)"
    r"| ?(?P<mark>[\x21-\x7e])(?P=mark)*|(?P<other>.)",
    re.DOTALL,
)


def _cost(match: re.Match[str]) -> int:
    """Half tokens."""
    kind, text = match.lastgroup, match.group()
    if kind == "word":
        letters = len(text.lstrip(" "))
        return 2 * -(-letters // 6) if letters <= 12 else 4 + 2 * -(-2 * (letters - 12) // 5)
    if kind == "capitals":
        return 2 * -(-len(text.lstrip(" ")) // 2)
    if kind == "digits":
        return 2
    if kind == "space":
        return 2 + 2 * (len(text) // 16)
    if kind == "mark":
        return 2 + 2 * (len(text) // 8)
    return 2 if text < "\u0e00" or "\u2010" <= text <= "\u2600" else 3 if text < "\U00010000" else 6


def _fits(text: str, limit: int) -> bool:
    return len(text) <= 16 * max(limit, 0) and estimate_tokens(text) <= limit


def _cut(text: str, limit: int) -> str:
    """Both ends of a text, and between them how much was left out; nothing when there is no room for that."""
    if _fits(text, limit):
        return text
    # Half a token's worth of one text can be more letters than that of another, so look for the length that fits.
    low, high = 0, min(len(text) - 1, 16 * max(limit, 0))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _fits(_ends(text, middle), limit) else (low, middle - 1)
    cut = _ends(text, low)
    return cut if low >= 16 and _fits(cut, limit) else ""


def _ends(text: str, length: int) -> str:
    tail = length // 2
    head = length - tail
    left_out = f"… {_number(len(text) - length)} characters left out …"
    return f"{text[:head]} {left_out} {text[len(text) - tail :]}"


# --- sharing the budget


def _shared_out(sections: dict[str, Render], budget: int) -> str:
    room = budget - len(sections)  # the line ends between them
    whole = {name: render(room) for name, render in sections.items()}
    needs = {name: estimate_tokens(text) for name, text in whole.items()}
    if sum(needs.values()) > room:
        room -= 8  # to say which found no room
    first = {name: need for name, need in needs.items() if name in ("error", "result")}
    rest = {name: need for name, need in needs.items() if name not in first}
    limits = _levelled(first, room - min(sum(rest.values()), room // 4))
    limits |= _levelled(rest, room - sum(limits.values()))
    texts = {
        name: text if limits[name] >= needs[name] else sections[name](limits[name]) for name, text in whole.items()
    }
    spare = room - sum(map(estimate_tokens, texts.values()))
    for name, text in texts.items():  # what some did not use is for others
        if text != whole[name]:
            used = estimate_tokens(text)
            texts[name] = sections[name](used + spare) or text
            spare -= estimate_tokens(texts[name]) - used
    parts = [text for text in texts.values() if text]
    missing = [name for name, text in texts.items() if not text]
    if missing:
        told = "\n".join((*parts, f"[left out] {', '.join(missing)}"))
        parts = [told if _fits(told, budget) else "\n".join((*parts, f"[left out] {len(missing)} more"))]
    return _cut("\n".join(parts), budget)


def _levelled(needs: dict[str, int], room: int) -> dict[str, int]:
    """Each as much as it needs, and where that is too much, all the same."""
    limits: dict[str, int] = {}
    for name in sorted(needs, key=lambda name: needs[name]):
        limits[name] = max(0, min(needs[name], room // (len(needs) - len(limits))))
        room -= limits[name]
    return limits


def _under(heading: str, limit: int, render: Render) -> str:
    body = render(limit - estimate_tokens(heading) - 1)
    if not body:
        return ""
    return f"{heading} {body}" if "\n" not in body else f"{heading}\n{body}"


def _listed(lines: list[str], limit: int, what: str) -> str:
    """As many lines as there is room for, and how many more there are."""
    whole = "\n".join(filter(None, lines))
    if all(lines) and _fits(whole, limit):
        return whole
    room = limit - 8
    kept: list[str] = []
    for line in lines:
        room -= estimate_tokens(line) + 1
        if room < 0 or not line:
            break
        kept.append(line)
    hidden = len(lines) - len(kept)
    marker = f"… {_number(hidden)} {'more ' if kept else ''}{what if hidden != 1 else what[:-1]} left out"
    return _cut("\n".join([*kept, marker]), limit)


# --- the error


_FRAME = re.compile(
    r'^[ \t]*(?:Cell In ?\[(?P<cell>\d+)\]|File "?(?P<file>[^":\n]+)"?)(?:, line |:)(?P<line>\d+)'
    r"(?:, in (?P<where>[^\n]+))?",
    re.MULTILINE,
)
_ARROW = re.compile(r"^-+> ?\d+ (.*)$", re.MULTILINE)
_LIBRARY = re.compile(r"site-packages|^/opt/|^/usr/|^<frozen|^<__array_function__")
_CHAIN = re.compile(
    r"^(?:The above exception was the direct cause of|During handling of the above exception, another)[^\n]*$",
    re.MULTILINE,
)


def _error(error: Error, limit: int) -> str:
    named = f"{_line(error.name)}: " if error.name and not error.message.startswith(error.name) else ""
    blocks = _CHAIN.split(_clean((error.traceback or "")[-2 * _KEPT :]))
    frames = list(_frames(blocks[-1]))
    own = [frame for frame in frames if not _LIBRARY.search(frame[1])]
    after = [f"at {where}: {source}" if source else f"at {where}" for where, _, source in (own or frames)[-1:]]
    cause = _raised(blocks[0]) if len(blocks) > 1 else ""
    after += [f"cause: {cause}"] if cause else []
    after += [f"fix: {_line(error.hint)}"] if error.hint else []
    calls = [f"  {where}: {source}" if source else f"  {where}" for where, _, source in frames[-4:]]
    if len(frames) > 1:
        left_out = [f"  … {len(frames) - 4} frames left out"] if len(frames) > 4 else []
        calls = ["last calls:", *left_out, *calls]
    else:
        calls = []
    if not frames and blocks[-1].strip():  # of another language
        calls = ["traceback:", _folded(blocks[-1], max(10, limit // 2))]
    message = _harmless(_clean(error.message).strip())
    for more in (after + calls, after):
        text = "\n".join((f"[error] {_line(error.kind)}: {named}{message}", *more))
        if _fits(text, limit):
            return text
    head = f"[error] {_line(error.kind)}: {named}"
    rest = "\n".join(after)
    for room in (limit - estimate_tokens(rest) - 1, limit // 2):
        start = _cut(head + message, room) or _cut(head, room)
        tail = _cut(rest, limit - room - 1)
        if start and tail:
            return f"{start}\n{tail}"
    return _cut(head + message, limit)


def _frames(traceback: str) -> Iterable[tuple[str, str, str]]:
    """Of each call: where it was, as words and as a file, and its line of code."""
    found = list(_FRAME.finditer(traceback))
    for n, match in enumerate(found):
        end = found[n + 1].start() if n + 1 < len(found) else len(traceback)
        body = traceback[match.end() : end]
        arrow = _ARROW.search(body)
        source = arrow.group(1) if arrow else next((line for line in body.split("\n")[1:2] if line.strip()), "")
        file = match["file"] or ""
        where = f"cell {match['cell']}" if match["cell"] else _line(file)
        inside = f", in {_line(match['where'])}" if match["where"] and match["where"] != "<module>" else ""
        yield f"{where} line {match['line']}{inside}", file, _line(source)


def _raised(block: str) -> str:
    """The exception that a traceback ends with."""
    lines = [line for line in block.strip().split("\n") if re.match(r"[A-Za-z_][\w.]*(: |$)", line)]
    return _line(lines[-1]) if lines else ""


# --- what was displayed


def _display(shown: Display, limit: int) -> str:
    forms = shown.mime if isinstance(shown.mime, dict) else {}
    text = forms.get("text/plain")
    text = text if isinstance(text, str) else ""
    image = next((form for form in forms if isinstance(form, str) and form.startswith("image/")), None)
    if isinstance(forms.get(CHART), dict):
        return _chart(forms[CHART], limit)
    if isinstance(forms.get(TABLE), dict):
        return _table(forms[TABLE], limit)
    if image is not None:
        return _cut(_image(image, forms[image]), limit)
    if text and not text.startswith("<IPython.core.display"):
        kind = next((form for form in forms if form.startswith("application/vnd.")), None)
        kind = "html" if "text/html" in forms else kind
        head = f"[{_line(kind)} {_size(_length(forms['text/html' if kind == 'html' else kind]))}] " if kind else ""
        return head + _folded(text, limit - estimate_tokens(head)) if head else _folded(text, limit)
    for form in ("text/markdown", "text/latex"):
        if isinstance(forms.get(form), str):
            return _folded(forms[form], limit)
    if "application/json" in forms:
        return _cut(_harmless(_json(forms["application/json"])), limit)
    if isinstance(forms.get("text/html"), str):
        html = forms["text/html"]
        words = re.sub(r"<(?:style|script)\b[^<>]*>[^<]*|<[^<>]*>", " ", html[:_KEPT], flags=re.IGNORECASE)
        head = f"[html {_size(_length(html))}] "
        return head + _cut(_line(words, _KEPT), limit - estimate_tokens(head))
    sizes = [f"[{_line(form)} {_size(_length(value))}]" for form, value in list(forms.items())[:10]]
    return _cut(", ".join(sizes), limit)


def _image(form: str, value: Any) -> str:
    size = ""
    if form == "image/png" and isinstance(value, str):
        try:
            head = a2b_base64(value[:44])
        except ValueError:
            head = b""
        if head[:8] == b"\x89PNG\r\n\x1a\n" and len(head) >= 24:
            size = f"{int.from_bytes(head[16:20], 'big')}×{int.from_bytes(head[20:24], 'big')}, "  # noqa: RUF001
    length = _length(value) if form.endswith("+xml") else _length(value) * 3 // 4
    return f"[{_line(form)} {size}{_size(length)}]"


def _chart(chart: dict[str, Any], limit: int) -> str:
    if chart.get("type") != "superchart":
        return _cut(f"[chart] {_chart_line(chart)}", limit)
    parts = [part for part in _list(chart.get("elements")) if isinstance(part, dict)]
    title = f" {_quoted(chart['title'])}" if chart.get("title") else ""
    lines = [f"[chart] {len(parts)} charts{title}", *(f"  {_chart_line(part)}" for part in parts)]
    return _listed(lines, limit, "lines")


def _chart_line(chart: dict[str, Any]) -> str:
    kind = chart.get("kind") if chart.get("type") in (None, "unknown") or chart.get("kind") == "histogram" else None
    words = [_line(kind or chart.get("type") or "chart", 40).replace("_", " ")]
    if chart.get("title"):
        words.append(_quoted(chart["title"]))
    facts = []
    for axis in ("x", "y"):
        label, scale = chart.get(f"{axis}_label"), chart.get(f"{axis}_scale")
        odd = f" [{_line(scale, 20)}]" if scale not in (None, "linear", "categorical", "datetime") else ""
        if label or odd:
            facts.append(f"{axis}: {_line(label or '', 80)}{odd}")
    shape = [_value(size) for size in _list(chart.get("shape"))[:3]]
    if shape:
        facts.append("×".join(shape))  # noqa: RUF001
    if chart.get("kind") == "heatmap" and "min" in chart:
        facts.append(f"values {_value(chart['min'])} to {_value(chart.get('max'))}")
    for part in [chart, *(part for part in _list(chart.get("also"))[:4] if isinstance(part, dict))]:
        facts += _elements(part)
    return " ".join(words) + (f" — {', '.join(facts)}" if facts else "")


def _elements(chart: dict[str, Any]) -> list[str]:
    elements = [element for element in _list(chart.get("elements")) if isinstance(element, dict)]
    if not elements:
        return []
    kind = chart.get("type")
    total = chart.get("elements_total", len(elements))
    if kind == "bar":
        groups = {_line(element.get("group") or "", 40) for element in elements}
        names = ("group", "label") if len(groups) > 1 else ("label",)
        shown = [
            f"{' '.join(_line(element.get(name) or '', 40) for name in names).strip()}: {_value(element.get('value'))}"
            for element in elements[:24]
        ]
        noun = "bars"
    elif kind == "pie":
        shown = [f"{_line(e.get('label') or '', 40)}: {_percent(e.get('angle'))}" for e in elements[:24]]
        noun = "slices"
    elif kind == "box_and_whisker":
        shown = [
            f"{_line(e.get('label') or '', 40)}: median {_value(e.get('median'))}"
            f" (quartiles {_value(e.get('first_quartile'))} to {_value(e.get('third_quartile'))},"
            f" whiskers {_value(e.get('min'))} to {_value(e.get('max'))}, {len(_list(e.get('outliers')))} outliers)"
            for e in elements[:12]
        ]
        noun = "boxes"
    else:
        shown = [_series(element) for element in elements[:12]]
        noun = "series" if kind == "line" else "sets of points"
    more = f"; … {_number(total - len(shown))} more" if isinstance(total, int) and total > len(shown) else ""
    return [f"{_value(total)} {noun}: {'; '.join(shown)}{more}"]


def _series(element: dict[str, Any]) -> str:
    points = [p for p in _list(element.get("points")) if isinstance(p, list) and len(p) == 2]
    total = element.get("points_total", len(points))
    label = _line(element.get("label") or "", 60)
    numbers = [p for p in points if isinstance(p[1], (int, float))]
    if not numbers:
        return f"{label} ({_value(total)} points)".strip()
    span = f"{_value(numbers[0][1])} → {_value(numbers[-1][1])}"
    low, high = min(p[1] for p in numbers), max(p[1] for p in numbers)
    if {low, high} != {numbers[0][1], numbers[-1][1]}:
        span += f", min {_value(low)}, max {_value(high)}"
    return f"{label} ({_value(total)} points, x {_value(numbers[0][0])} to {_value(numbers[-1][0])}, y {span})".strip()


# Columns, rows, statistics: the most that fits.
_TABLE_SIZES = ((50, 10, True), (50, 5, True), (20, 3, True), (20, 3, False), (10, 0, False), (0, 0, False))


def _table(table: dict[str, Any], limit: int) -> str:
    rows, width = [_value(size) for size in [*_list(table.get("shape"))[:2], "?", "?"][:2]]
    columns = [column for column in _list(table.get("columns")) if isinstance(column, dict)]
    head = f"[table] {rows} rows × {width} columns"  # noqa: RUF001
    named = [f"{_line(column.get('name', ''), 60)} ({_line(column.get('type', ''), 40)})" for column in columns]
    statistics = [_statistics(entry) for entry in _list(table.get("summary")) if isinstance(entry, dict)]
    seen = table.get("summary_rows")
    of = f" of the first {_number(seen)} rows" if isinstance(seen, int) and _value(seen) != rows else ""
    index = _list(table["index"].get("values")) if isinstance(table.get("index"), dict) else []
    lines = []
    for n, row in enumerate(_list(table.get("rows"))[:20]):
        label = [", ".join(map(_value, index[n])) if isinstance(index[n], list) else index[n]] if n < len(index) else []
        lines.append(_harmless(" | ".join(_value(cell) for cell in [*label, *_list(row)][:50])))
    for columns_shown, count, with_statistics in _TABLE_SIZES:
        text = [head, f"columns: {_enumerated(named, columns_shown, width)}"] if columns_shown else [head]
        if with_statistics and statistics:
            text.append(f"statistics{of}: {_enumerated(statistics, columns_shown, str(len(statistics)), '; ')}")
        if lines[:count]:
            text += [f"first {len(lines[:count])} rows:", *lines[:count]]
        whole = "\n".join(text)
        if _fits(whole, limit):
            return whole
    return _cut(whole, limit)


def _enumerated(items: list[str], most: int, total: str, by: str = ", ") -> str:
    if len(items) <= most and total in (str(len(items)), "?"):
        return by.join(items)
    return f"{by.join(items[:most])}{by}… ({total} in all)"


def _statistics(entry: dict[str, Any]) -> str:
    facts = [f"{key} {_value(entry[key])}" for key in ("min", "max", "mean", "unique") if entry.get(key) is not None]
    if entry.get("top") is not None:
        facts.append(f"most often {_value(entry['top'])} ({_value(entry.get('top_count'))} times)")
    if entry.get("nulls"):
        facts.append(f"{_value(entry['nulls'])} missing")
    return f"{_line(entry.get('name', ''), 60)}: {', '.join(facts) or 'no values'}"


# --- output


_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b\n]*(?:\x1b\\)?|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|\x1b[^\n]?"
)
# Control characters, halves of pairs, marks of direction, what takes no space, and the invisible alphabet of tags.
_UNSEEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]+")
_JUNK = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufff0-\uffff]+")
_OURS = re.compile(rf"^(?=\[(?:{_HEADINGS})\b|…)", re.MULTILINE)


def _clean(text: str) -> str:
    """What a terminal would show in the end, without what it would not."""
    text = _ESCAPES.sub("", text)
    if "\r" in text:  # what follows it is written over what was there
        lines = (line.split("\r") for line in text.split("\n"))
        text = "\n".join(next((part for part in reversed(parts) if part), "") for parts in lines)
    if "\b" in text:
        text = re.sub("[^\n\b]?\b", "", text)
    return _JUNK.sub("\ufffd", _UNSEEN.sub("", text))


def _harmless(text: str) -> str:
    """No line that looks like ours."""
    return _OURS.sub(" ", text)


def _output(name: str, text: str) -> Render:
    lines = _lines(text)  # once: they may be many
    return lambda limit: _under(f"[{name}]", limit, lambda room: _folded_lines(*lines, room))


def _folded(text: str, limit: int) -> str:
    return _folded_lines(*_lines(text), limit)


def _lines(text: str) -> tuple[list[str], list[str]]:
    """Clean lines, of a very long text those at both ends: once with repeated lines folded, once also similar ones."""
    text = text.strip("\n")
    middle = max(0, len(text) - 2 * _KEPT)
    head, tail = (text[:_KEPT], text[-_KEPT:]) if middle else (text, "")
    lines = _harmless(_clean(head)).split("\n")
    if middle:
        lines.append(_left_out(text.count("\n", _KEPT, len(text) - _KEPT), middle))
        lines += _harmless(_clean(tail)).split("\n")
    lines = [line.rstrip() for line in lines]
    lines = _without_repeats(lines, lines, 3)
    return lines, _without_repeats(lines, [_skeleton(line) for line in lines], 4)


def _folded_lines(lines: list[str], fewer: list[str], limit: int) -> str:
    """The lines if they fit, else the fewer ones and, where they are still too long, without their middle."""
    for each in (lines, fewer):
        whole = "\n".join(each)
        if _fits(whole, limit):
            return whole
    lines = fewer
    room = limit - 14  # for the line that says what was left out
    longest = max(room // 3, 12)
    head: list[str] = []
    tail: list[str] = []
    start, end = 0, len(lines)
    used_head = used_tail = 0
    while start < end:
        at_head = used_head <= used_tail
        line = lines[start] if at_head else lines[end - 1]
        line = line if _fits(line, longest) else _cut(line, longest)
        cost = estimate_tokens(line) + 1
        if used_head + used_tail + cost > room:
            break
        if at_head:
            head.append(line)
            start, used_head = start + 1, used_head + cost
        else:
            tail.append(line)
            end, used_tail = end - 1, used_tail + cost
    if start >= end:
        return _cut("\n".join([*head, *reversed(tail)]), limit)
    hidden = lines[start:end]
    marker = _left_out(_count(hidden), sum(map(_characters, hidden)))
    return _cut("\n".join([*head, marker, *reversed(tail)]), limit)


def _left_out(lines: int, characters: int) -> str:
    return f"… {f'{_number(lines)} lines, ' if lines else ''}{_number(characters)} characters left out"


_FOLDED = re.compile(r"… (?:([\d,]+) (?:more )?lines)?(?: like this)?(?:,? ?([\d,]+) characters left out)?$")


def _count(lines: list[str]) -> int:
    """How many lines these stand for."""
    folded = (_FOLDED.match(line) for line in lines)
    return sum(int((match[1] or "0").replace(",", "")) if match else 1 for match in folded)


def _characters(line: str) -> int:
    match = _FOLDED.match(line)
    return int((match[2] or "0").replace(",", "")) if match else len(line) + 1


def _skeleton(line: str) -> str:
    """What lines have in common that differ in numbers, or in how far a bar has come."""
    return re.sub(r"[#=>\-.*█▉▊▋▌▍▎▏━╸╺ ]{2,}", " ", re.sub(r"\d+(?:[.,:]\d+)*", "0", line))


def _without_repeats(lines: list[str], keys: list[str], least: int) -> list[str]:
    """Lines with the same key, so many or more in a row: the first, how many more, and the last if it differs."""
    kept: list[str] = []
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and keys[end] == keys[at] and not lines[at].startswith("… "):
            end += 1
        run = lines[at:end]
        if len(run) < least or not run[0]:
            kept += run if run[0] else run[:1]
        else:
            last = run[-1:] if run[-1] != run[0] else []
            kept += [run[0], f"… {_number(len(run) - 1 - len(last))} more lines like this", *last]
        at = end
    return kept


# --- files, tools, notes


def _file(artifact: Artifact) -> str:
    return f"{_line(artifact.path, 200)} ({_size(artifact.size)})"


def _tool_call(call: ToolCall) -> str:
    args = [_json(value, 2) for value in _list(call.args)[:10]]
    named = list(call.kwargs.items())[:10] if isinstance(call.kwargs, dict) else []
    args += [f"{_line(name, 40)}={_json(value, 2)}" for name, value in named]
    outcome = f"failed: {_line(call.error)}" if call.error is not None else _line(_json(call.value, 3))
    return f"{_line(call.name, 80)}({_line(', '.join(args))}) → {outcome} ({_seconds(call.duration)})"


def _notes(result: Result) -> list[str]:
    notes = []
    if result.restarted:
        notes.append("The kernel was restarted: variables are lost, files are not.")
    elif result.error is not None and result.error.kind == "timeout" and result.execution_count is not None:
        notes.append("The code was interrupted: variables are kept.")
    if result.truncated:
        notes.append("Output was cut at its limit.")
    return notes


# --- values


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _line(value: Any, most: int = 300) -> str:
    """A short text on one line."""
    text = value if isinstance(value, str) else str(value) if isinstance(value, (int, float)) else _json(value)
    text = " ".join(_clean(text[: 4 * most]).split())
    return text if len(text) <= most else f"{text[:most]}…"


def _quoted(value: Any) -> str:
    return f'"{_line(value, 120)}"'


def _value(value: Any) -> str:
    """A number in few digits, or a short text."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        return _line(value.removesuffix("T00:00:00"), 80)
    return "–" if value is None else _line(_json(value, 2), 80)  # noqa: RUF001


def _percent(angle: Any) -> str:
    return f"{angle / 3.6:.3g} %" if isinstance(angle, (int, float)) else "?"


def _json(value: Any, depth: int = 5) -> str:
    """A JSON value, of deep and long ones a part."""
    if isinstance(value, dict):
        if depth <= 0:
            return f"{{… {len(value)} entries}}"
        parts = [f"{_json(str(key), 1)}: {_json(item, depth - 1)}" for key, item in list(value.items())[:30]]
        return f"{{{', '.join(parts)}{f', … {len(value) - 30} more' if len(value) > 30 else ''}}}"
    if isinstance(value, (list, tuple)):
        if depth <= 0:
            return f"[… {len(value)} items]"
        parts = [_json(item, depth - 1) for item in value[:30]]
        return f"[{', '.join(parts)}{f', … {len(value) - 30} more' if len(value) > 30 else ''}]"
    if isinstance(value, str):
        cut = value if len(value) <= 500 else f"{value[:500]}… {len(value) - 500} characters more"
        escaped = _clean(cut).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'
    if isinstance(value, bool) or value is None:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value) if abs(value) < 1 << 200 else "a very large number"
    return f"{value!r}" if isinstance(value, float) else f"<{type(value).__name__}>"


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(_json(value))


def _number(count: int) -> str:
    return f"{count:,}"


def _size(count: int) -> str:
    for unit, factor in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} bytes"


def _seconds(duration: float) -> str:
    return f"{duration:.3g} s"
