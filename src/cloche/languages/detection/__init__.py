"""Detects the language of code that comes without one: by its label, file name, shebang line or content.

Nothing here runs the code or trusts it.
"""

from __future__ import annotations

from cloche.model.plain import Plain

_CERTAIN = 1.0  # the confidence of a plain statement, such as a label
_SHEBANG = 0.98
_AMONG_FEW = 0.9  # of a file extension that several languages use


class Guess(Plain):
    """The language that some code seems to be in; the name is empty if the code is in none that Cloche knows."""

    language: str
    confidence: float  # 0 to 1
    why: str


def detect(code: str, *, file: str | None = None, label: str | None = None) -> Guess:
    """Detect the language of code from its Markdown label, else its file name, its shebang line, or its content."""
    return _by_label(label or "") or _by_file(file or "", code) or _by_shebang(code) or _by_content(code)


def _by_label(label: str) -> Guess | None:
    from cloche.languages.detection import known_names

    for name in _label_names(label):
        if name in known_names.SILENT_LABELS:
            continue
        language = known_names.language_in(known_names.LABELS, name) or _defined("aliases", name)
        if language:
            return Guess(language, _CERTAIN, f"the label says {name}")
        if name in known_names.FOREIGN_LABELS:
            return Guess("", 0.0, f"the label says {name}")
    return None


def _label_names(label: str) -> list[str]:
    """List the names in a label: `python`, `{.python .numberLines}`, `{r, echo=FALSE}`, `js:app.js`, `text/x-perl`."""
    words = label[:200].strip().strip("`~{}").lower().replace(",", " ").replace(":", " ").replace("{", " ").split()
    if not words:
        return []
    word = words[0].strip(".").removeprefix("language-").removeprefix("lang-").rpartition("/")[2]
    return [word, word.removeprefix("x-")]


def _by_file(file: str, code: str) -> Guess | None:
    from cloche.languages.detection import known_names

    name = file[-300:].replace("\\", "/").rpartition("/")[2].strip().lower()
    language = known_names.language_in(known_names.FILES, name) if name else ""
    if language:
        return Guess(language, _CERTAIN, f"the file is called {name}")
    if name in known_names.FOREIGN_FILES:
        return Guess("", 0.0, f"the file is called {name}")
    stem, _, ending = name.rpartition(".")
    if not stem:
        return None
    if ending in known_names.UNDECIDED:
        return _among(code, known_names.UNDECIDED[ending], f"the file's name ends in .{ending}")
    language = next((one for one, endings in known_names.ENDINGS.items() if ending in endings.split()), "")
    if not language and ending not in known_names.SILENT_ENDINGS:
        language = _defined("extensions", f".{ending}")
    if language:
        return Guess(language, _CERTAIN, f"the file's name ends in .{ending}")
    return Guess("", 0.0, f"the file is called {name}") if ending in known_names.FOREIGN_ENDINGS else None


def _defined(field: str, word: str) -> str:
    """Find the language whose definition has the word, if the tables of known names do not; they are faster."""
    from cloche import languages

    return next((each.name for each in languages.everything() if word == each.name or word in getattr(each, field)), "")


def _among(code: str, choice: tuple[str, ...], why: str) -> Guess:
    """Choose the likeliest of a few languages."""
    from cloche.languages.detection.content import weigh

    ranked = [name for _, name, _ in weigh(code) if name in choice]
    return Guess(next(iter(ranked), choice[0]), _AMONG_FEW, why)


def _by_shebang(code: str) -> Guess | None:
    from cloche.languages.detection import known_names

    first = code[:1000].lstrip("\ufeff \t\r\n").partition("\n")[0]
    if not first.startswith("#!") or first.startswith("#!["):
        return None
    words = first[2:].split()
    while words and (
        words[0].rpartition("/")[2] in ("env", "busybox", "sudo") or words[0].startswith("-") or "=" in words[0]
    ):
        del words[0]
    program = words[0].rpartition("/")[2].lower() if words else ""
    if not program:
        return None
    if program in ("deno", "bun", "node", "npx") and any(
        word in ("tsx", "ts-node") or "strip-types" in word for word in words
    ):
        return Guess("typescript", _SHEBANG, f"the first line names {program}")
    # Interpreters have their version in their name: python3.12, lua5.4, php8.
    bare = program.rstrip("0123456789.-")
    language = (
        known_names.language_in(known_names.PROGRAMS, program)
        or known_names.language_in(known_names.PROGRAMS, bare)
        or _defined("aliases", bare)
    )
    return Guess(language, _SHEBANG if language else 0.0, f"the first line names {program}")


def _by_content(code: str) -> Guess:
    from cloche.languages.detection.content import weigh

    confidence, name, marks = weigh(code)[0]
    if not name:
        return Guess("", 0.0, "nothing in it is typical of a language")
    if name.startswith("="):
        return Guess("", 0.0, f"it looks like {name[1:]}")
    return Guess(name, round(confidence, 3), f"it has {', '.join(f'`{mark}`' for mark in marks)}")
