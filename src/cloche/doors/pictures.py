"""The pictures of a result that a model may look at; each has been checked, since a broken one ends conversations."""

from __future__ import annotations

from base64 import b64decode
from typing import NamedTuple

from cloche.io.tasks import LARGE
from cloche.model.result import Result
from cloche.results.pictures import picture_of
from cloche.service.event_log import characters_of

_FORMS = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MOST_CHECKED = 32  # of one result; the largest takes a tenth of a second


class ShownPicture(NamedTuple):
    """A complete picture: its type, by its content, and its bytes in base64."""

    mime: str
    data: str


def shown_pictures(
    result: Result, most: int = _MOST_CHECKED, room: float = float("inf")
) -> tuple[list[ShownPicture], int]:
    """Return at most so many pictures, with at most `room` characters in all, and the number of those left out."""
    good: list[ShownPicture] = []
    candidates = [
        shown.mime for shown in result.results if any(isinstance(shown.mime.get(form), str) for form in _FORMS)
    ]
    for forms in candidates[:_MOST_CHECKED]:
        picture = _checked(forms, room) if len(good) < most else None
        if picture is not None:
            room -= len(picture.data)
            good.append(picture)
    return good, len(candidates) - len(good)


def note_about(left_out: int) -> str:
    """Return a line for the model about pictures that it does not get; empty if it gets all."""
    if not left_out:
        return ""
    return f"\n[note] {left_out} pictures are not shown: too many, too large, or not what they claim to be."


def work_for_model(result: Result) -> int:
    """Estimate the characters of an answer for a model; pictures count as many, since checking one unpacks it."""
    has_pictures = any(form in shown.mime for shown in result.results for form in _FORMS)
    return LARGE + 1 if has_pictures else characters_of(result, LARGE)


def _checked(forms: dict[str, object], room: float) -> ShownPicture | None:
    for form in _FORMS:
        text = forms.get(form)
        if not isinstance(text, str) or len(text) > 2 * room:
            continue
        data = text.replace("\n", "")
        try:
            picture = picture_of(b64decode(data, validate=True)) if len(data) <= room else None
        except ValueError:
            picture = None
        if picture is not None:
            return ShownPicture(picture.mime, data)
    return None
