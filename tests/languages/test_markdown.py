"""Code with a Markdown fence around it."""

from __future__ import annotations

import pytest

import cloche
from cloche.languages.markdown import strip_fence


@pytest.mark.parametrize(
    ("code", "expected", "label"),
    [
        ("```python\nprint(1)\n```", "\nprint(1)\n", "python"),
        ("\n  ~~~~ {r, echo=FALSE}\nx\n\ny\n~~~~\n\n", "\n\nx\n\ny\n", "{r, echo=FALSE}"),
        ("  ```py\n  if 1:\n      x\n y\n  ```", "\nif 1:\n    x\ny\n", "py"),
        ("````\n```\ninner\n```\n````", "\n```\ninner\n```\n", ""),
    ],
)
def test_a_fence_is_taken_off_and_lines_stay_where_they_were(code: str, expected: str, label: str) -> None:
    assert strip_fence(code) == (expected, label)


@pytest.mark.parametrize(
    "code",
    ["", "\n", "print(1)", "`x`", "```python\nprint(1)", "```\na\n```\ntext\n```\nb\n```", "See:\n```\na\n```", "```"],
)
def test_what_is_not_one_block_stays_as_it_is(code: str) -> None:
    assert strip_fence(code) == (code, "")


def test_its_label_says_the_language(jail: None) -> None:
    result = cloche.run("```js\nconsole.log(1)\nnull.x\n```\n", language=None)
    assert result.error is not None
    assert (result.stdout, result.error.kind) == ("1\n", "runtime")
    assert "main.js:3" in (result.error.traceback or "")
