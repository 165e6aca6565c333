"""Chooses the language of `cloche run -c CODE` and `cloche run -`, where no file name says it."""

from __future__ import annotations

import sys

_LIKELY = 0.5  # the confidence from which a text that is also valid Python counts as another language
_OBVIOUS = 0.9  # the confidence from which the choice needs no mention


def detected(code: str) -> str:
    """Return the detected language, and mention it on standard error unless it is obvious; Python in case of doubt."""
    from cloche import languages
    from cloche.languages.detection import detect
    from cloche.languages.detection.python_syntax import is_valid_python

    guess = detect(code)
    if guess.language in ("", "python") or (guess.confidence < _LIKELY and is_valid_python(code)):
        return "python"
    if guess.confidence < _OBVIOUS:
        title = languages.find(guess.language).title
        print(f"cloche: the code looks like {title}; -l NAME says otherwise, for example -l python", file=sys.stderr)
    return guess.language
