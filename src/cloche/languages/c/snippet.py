"""C and C++ as people write them in chats: statements without `main`, calls without the header that declares them.

The source is never parsed in full.  It is cut into pieces at its top level, and a piece is moved only when its form
says what it is; whatever is not plain stays as it was, and the compiler says what it thinks of it.
"""

from __future__ import annotations

import re

_QUIET = re.compile(  # what is not code, and numbers, whose separators look like the beginning of a character
    r"""(?P<number>\b\d(?:'?[\w.])*)
    |(?:\b(?:u8|[uUL]))?R"(?P<mark>[^()\\\s"]{0,16})\((?s:.*?)(?:\)(?P=mark)"|\Z)
    |"(?:\\(?s:.)|[^"\\\n])*"?
    |'(?:\\(?s:.)|[^'\\\n])*'?
    |//(?:\\\n|[^\n])*
    |/\*(?s:.*?)(?:\*/|\Z)""",
    re.VERBOSE,
)
_LANDMARK = re.compile(r"[{}()\[\];]|^[ \t]*\#(?:\\\n|[^\n])*", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"\n]*)[>\"]", re.MULTILINE)
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:if|elif|else)", re.MULTILINE)
_CONTROL = (
    r"(?:if|else|for|while|do|switch|case|default|return|goto|break|continue|throw|try|catch|delete|new|co_\w+)\b"
)
_ITEM = re.compile(
    r"(?:template|namespace|inline\s+namespace|using|typedef|extern|static_assert|_Static_assert|concept)\b"
)
_TYPE = re.compile(r"(?:(?:static|const)\s+)*(?:struct|class|union|enum)\b")
_WORD = r"[A-Za-z_][\w:]{0,200}(?:<[^;(){}]{0,200}>)?"
_FUNCTION = re.compile(
    rf"(?:\[\[.*?\]\]\s*)?(?:{_WORD}(?:\s*[*&]+\s*|\s+))+(~?[\w:]+|operator\s*\S+)\s*\(\)(?P<after>.*)$", re.DOTALL
)
# A constructor, a destructor or a conversion of a class, outside of it: what has no type in front of its name.
_STRUCTOR = re.compile(
    r"(?:inline\s+)?(?:\w+::)*(\w+)::(?:~?\1|operator\b[^()=]*)\s*\(\).*(?:\}|=\s*default\s*;)$", re.DOTALL
)
_LABEL = re.compile(r"(?:[A-Za-z_]\w*\s*:(?!:)\s*)+")
_AFTER = re.compile(r"(?:\s|const|noexcept|override|final|volatile|&|->[\w:<>\s*&]+|:[^?]*)*$")
_VARIABLE = re.compile(rf"(?:{_WORD}(?:\s*[*&]+\s*|\s+))+([A-Za-z_]\w*)\s*(?=[=;,\[{{(]|$)")
_SPOKEN = re.compile(r"(?<![\w.:])(?<!->)([A-Za-z_]\w*)\b(?!\s*::)")
_OWN = re.compile(
    r"(?:[({;,<]|(?<!:):(?!:))\s*(?:(?:const|static|unsigned|signed|struct|long|short)\s+)*(?!(?:return|else|goto|case|throw|delete)\b)"
    rf"{_WORD}(?:\s*[*&]+\s*|\s+)([A-Za-z_]\w*)\s*(?=[,;=)\[{{:(])"
)
_MOST_BLOCKS = 100  # of one piece: each time all of it is looked at
_MORE = re.compile(r",[\s*&]*([A-Za-z_]\w*)")


class Piece:
    """A part of the source at its top level: from `start` to `end`."""

    def __init__(self, start: int, end: int, text: str) -> None:
        self.start, self.end = start, end
        label = _LABEL.match(text.strip())
        self.is_labelled = label is not None
        self.text = text.strip()[label.end() if label is not None else 0 :]
        self.flat = _flat(self.text)

    @property
    def is_directive(self) -> bool:
        """A line for the preprocessor."""
        return self.text.startswith("#")

    @property
    def is_function(self) -> bool:
        """A function with its body."""
        return self.function != "" and self.text.endswith("}")

    @property
    def function(self) -> str:
        """The name of the function that is defined or declared here, if one is; `vector<int> v(3);` looks the same."""
        head = self.flat.removesuffix(";").removesuffix("{}").strip()
        match = _FUNCTION.match(head)
        if match is None or re.match(_CONTROL, head) or not _AFTER.match(match["after"]):
            return ""
        return match[1]

    @property
    def is_item(self) -> bool:
        """Something that cannot be in a function, or that others outside may need: a type, a namespace."""
        if self.is_labelled:
            return False
        if self.is_directive or self.is_function or _ITEM.match(self.text) or _STRUCTOR.match(self.flat):
            return True
        return bool(_TYPE.match(self.text)) and ("{" in self.flat.partition("=")[0] or self.flat.count(" ") < 2)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names that are declared here, if this is a declaration."""
        match = None if re.match(_CONTROL, self.flat) else _VARIABLE.match(self.flat)
        return (match[1], *_MORE.findall(self.flat[match.end() :])) if match is not None else ()


def blanked(text: str) -> str:
    """The same without comments and what is in quotes: spaces instead, so that every place stays where it is."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        if match["number"]:
            return found.replace("'", "_")
        inner = re.sub(r"[^\n]", " ", found)
        return f'"{inner[1:-1]}"' if found[0] not in "/'" and len(found) > 1 else inner

    return _QUIET.sub(blank, text)


def includes(text: str) -> list[tuple[str, bool]]:
    """The headers that a source names, and whether each is the system's."""
    quiet = blanked(text)
    return [(text[match.start(2) : match.end(2)].strip(), match[1] == "<") for match in _INCLUDE.finditer(quiet)]


def leading_includes(text: str) -> frozenset[str]:
    """The system's headers that come before anything that could change what is in them."""
    found = []
    for line in blanked(text).splitlines():
        match = _INCLUDE.match(line)
        if match is not None and match[1] == "<":
            found.append(match[2].strip())
        elif line.strip():
            break
    return frozenset(found)


def has_main(text: str) -> bool:
    """Does it say where the program begins?"""
    return re.search(r"\bw?[mM]ain\s*\(", blanked(text)) is not None


def stands_alone(text: str) -> bool:
    """Does nothing in it refer to another file: a header of its own, a function that is declared and not defined?"""
    if any(not system for _, system in includes(text)):
        return False
    pieces = split(blanked(text)) or []
    defined = {piece.function for piece in pieces if piece.is_function}
    return not any(
        piece.text.startswith("extern") or (piece.function and piece.function not in defined) for piece in pieces
    )


def preceded(text: str, file: str, before: str) -> str:
    """The same after a line of ours; every line is the author's."""
    return f"{before}\n{_place(file)}{text}"


def wrapped(text: str, file: str, before: str = "") -> str | None:
    """The same with its statements in a `main`; None when it has one, or when it is not plain what belongs there.

    All of it is in the result twice: once without its statements, once with nothing else.  So every line and column is
    the author's.
    """
    if has_main(text) or _CONDITION.search(text):
        return None
    quiet = blanked(text)
    pieces = split(quiet)
    if pieces is None:
        return None
    defined = {piece.function for piece in pieces if piece.is_function}
    inside: list[Piece] = []
    outside: list[Piece] = []
    for piece in pieces:
        (outside if piece.is_item or piece.function in defined else inside).append(piece)
    declaring: dict[str, list[Piece]] = {}
    for piece in inside:
        for name in piece.variables:
            declaring.setdefault(name, []).append(piece)
    for item in outside:  # it grows: a variable that stays outside may begin with another, as in `int memo[N];`
        for name in _foreign(item.text):
            outside += declaring.pop(name, ())
    kept = set(outside)
    inside = [piece for piece in inside if piece not in kept]
    if not any(not piece.function or piece.variables for piece in inside):
        return None
    arguments = "int argc, char **argv" if re.search(r"\barg[cv]\b", quiet) else ""
    whole = f"{_without(text, inside)}\nint main({arguments}) {{\n{_place(file)}{_without(text, outside)}\n}}\n"
    return preceded(whole, file, before)


def split(quiet: str) -> list[Piece] | None:
    """The pieces of a source whose comments are blanked; None when its brackets do not match, or are too many."""
    pieces: list[Piece] = []
    start = depth = opened = blocks = 0

    def cut(end: int) -> None:
        nonlocal start, blocks
        blocks = 0
        if quiet[start:end].strip():
            pieces.append(Piece(start, end, quiet[start:end]))
        start = end

    for match in _LANDMARK.finditer(quiet):
        mark = match[0]
        if mark in "{([":
            if depth == 0 and mark == "{":
                opened = match.start()
            depth += 1
        elif mark in "})]":
            depth -= 1
            if depth < 0:
                return None
            if depth == 0 and mark == "}":
                blocks += 1
                if blocks > _MOST_BLOCKS:
                    return None
                if _ends_at_brace(_flat(quiet[start:opened])):
                    cut(match.end())
        elif depth == 0:
            if mark != ";":
                cut(match.start())  # a directive ends what has no end of its own, and is one line
            cut(match.end())
    cut(len(quiet))
    return None if depth else pieces


def _ends_at_brace(head: str) -> bool:
    """Is a block the end of what begins so?  After a type's or a value's there is more."""
    if not head or re.match(rf"{_CONTROL}|namespace\b|inline\s+namespace\b", head) or head == 'extern ""':
        return True
    if re.search(r"\)\s*(?:noexcept\s*)?:(?!:)[^?]*[\w>]$", head):
        return False  # a member that a constructor begins with
    if re.sub(r"operator\s*\S+\s*\(\)", "", head).replace("==", "").find("=") >= 0:
        return False
    if head.startswith("template"):
        head = re.sub(r"^template\s*<[^{}()]*>\s*(?:requires\b.*?(?=\b(?:struct|class|auto|void)\b))?", "", head)
    return "()" in head


def _foreign(item: str) -> set[str]:
    """The names that an item speaks of and does not declare: variables of those names have to stay outside, too."""
    return set() if item.startswith("#") else set(_SPOKEN.findall(item)) - set(_OWN.findall(item))


def _flat(text: str) -> str:
    """A piece without what is in its brackets, in one line."""
    parts, depth = [], 0
    for part in re.split(r"([{}()\[\]])", text):
        if part in ("}", ")", "]"):
            depth -= 1
        if depth == 0:
            parts.append(part)
        if part in ("{", "(", "["):
            depth += 1
    return " ".join("".join(parts).split())


def _place(file: str) -> str:
    return f'#line 1 "{file}"\n'


def _without(text: str, pieces: list[Piece]) -> str:
    for piece in pieces:
        gone = re.sub(r"[^\n]", " ", text[piece.start : piece.end])
        text = text[: piece.start] + gone + text[piece.end :]
    return text
