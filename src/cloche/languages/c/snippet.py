"""Completes C and C++ as people write it in chats: statements without `main`, calls without their headers.

The source is never parsed in full.  It is split into pieces at its top level, and a piece is moved only when its form
is unmistakable; everything else stays as it was, and the compiler reports what is wrong with it.
"""

from __future__ import annotations

import re

_QUIET = re.compile(  # text that is not code, and numbers, whose separators look like quotes
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
# What follows is written for a backtracking matcher, which holds the whole process while it looks: no text may be
# read in two ways.  Hence the quantifiers that give nothing back, and angle brackets that match.
_ARGUMENT = "[^<>;(){}]"
_INNER = rf"<(?:{_ARGUMENT}|<(?:{_ARGUMENT}|<{_ARGUMENT}{{0,200}}+>){{0,200}}+>){{0,200}}+>"
_WORD = rf"[A-Za-z_][\w:]{{0,200}}+(?:<(?:{_ARGUMENT}|{_INNER}){{0,200}}+>)?+"
_FUNCTION = re.compile(
    rf"(?:\[\[.*?\]\]\s*)?(?:{_WORD}(?:\s*[*&]+\s*|\s+))+(~?[\w:]+|operator\s*\S+)\s*\(\)(?P<after>.*)$", re.DOTALL
)
# A constructor, destructor or conversion outside of its class: it has no type before its name.
_STRUCTOR = re.compile(
    r"(?:inline\s+)?(?:\w+::)*(\w+)::(?:~?\1|operator\b[^()=]*)\s*\(\).*(?:\}|=\s*default\s*;)$", re.DOTALL
)
_LABEL = re.compile(r"(?:[A-Za-z_]\w*\s*:(?!:)\s*)+")
_SUFFIX = r"\s|const|noexcept|override|final|volatile|&"
_AFTER = re.compile(  # the initialisers of a constructor come after a colon, and a returned type may have colons
    rf"(?!.*\?)(?:(?:{_SUFFIX}|->[\w:<>\s*&]++)*+$|(?:{_SUFFIX}|->[\w<>\s*&]++)*+(?::|->:[\w<>\s*&]*+:))", re.DOTALL
)
_VARIABLE = re.compile(rf"(?:{_WORD}(?:\s*[*&]+\s*|\s+))+([A-Za-z_]\w*)\s*(?=[=;,\[{{(]|$)")
_SPOKEN = re.compile(r"(?<![\w.:])(?<!->)([A-Za-z_]\w*)\b(?!\s*::)")
_OWN = re.compile(
    r"(?:[({;,<]|(?<!:):(?!:))\s*(?:(?:const|static|unsigned|signed|struct|long|short)\s+)*(?!(?:return|else|goto|case|throw|delete)\b)"
    rf"{_WORD}(?:\s*[*&]+\s*|\s+)([A-Za-z_]\w*)\s*(?=[,;=)\[{{:(])"
)
_MOST_BLOCKS = 100  # of one piece: each block looks at the whole piece again
_MORE = re.compile(r",[\s*&]*([A-Za-z_]\w*)")


class Piece:
    """A piece of the source at its top level, from `start` to `end`."""

    def __init__(self, start: int, end: int, text: str) -> None:
        self.start, self.end = start, end
        label = _LABEL.match(text.strip())
        self.is_labelled = label is not None
        self.text = text.strip()[label.end() if label is not None else 0 :]
        self.flat = _flat(self.text)

    @property
    def is_directive(self) -> bool:
        return self.text.startswith("#")

    @property
    def is_function(self) -> bool:
        """Is it a function with its body?"""
        return self.function != "" and self.text.endswith("}")

    @property
    def function(self) -> str:
        """The name of the function that is defined or declared here, if any; `vector<int> v(3);` looks the same."""
        head = self.flat.removesuffix(";").removesuffix("{}").strip()
        match = _FUNCTION.match(head)
        if match is None or re.match(_CONTROL, head) or not _AFTER.match(match["after"]):
            return ""
        return match[1]

    @property
    def is_item(self) -> bool:
        """Is it something that cannot be in a function, or that items outside may need: a type, a namespace?"""
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
    """Replace comments and quoted text by spaces, so that every other character keeps its position."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        if match["number"]:
            return found.replace("'", "_")
        inner = re.sub(r"[^\n]", " ", found)
        return f'"{inner[1:-1]}"' if found[0] not in "/'" and len(found) > 1 else inner

    return _QUIET.sub(blank, text)


def includes(text: str) -> list[tuple[str, bool]]:
    """List the headers that a source includes, and whether each is a system header."""
    quiet = blanked(text)
    return [(text[match.start(2) : match.end(2)].strip(), match[1] == "<") for match in _INCLUDE.finditer(quiet)]


def leading_includes(text: str) -> frozenset[str]:
    """List the system headers that come before anything that could change their contents."""
    found = []
    for line in blanked(text).splitlines():
        match = _INCLUDE.match(line)
        if match is not None and match[1] == "<":
            found.append(match[2].strip())
        elif line.strip():
            break
    return frozenset(found)


def has_main(text: str) -> bool:
    """Does the source define `main`?"""
    return re.search(r"\bw?[mM]ain\s*\(", blanked(text)) is not None


def stands_alone(text: str) -> bool:
    """Does the source refer to no other file: no header of its own, no function that is declared but not defined?"""
    if any(not system for _, system in includes(text)):
        return False
    pieces = split(blanked(text)) or []
    defined = {piece.function for piece in pieces if piece.is_function}
    return not any(
        piece.text.startswith("extern") or (piece.function and piece.function not in defined) for piece in pieces
    )


def preceded(text: str, file: str, before: str) -> str:
    """Put a line before the source; the line numbers stay the author's."""
    return f"{before}\n{_place(file)}{text}"


def wrapped(text: str, file: str, before: str = "") -> str | None:
    """Put the statements of a source into a `main`; None if it has one, or if it is unclear what belongs there.

    The result contains the source twice: once without its statements, once with nothing else.  So every line and column
    stays the author's.
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
    for item in outside:  # grows meanwhile: a variable that stays outside may need another one, as in `int memo[N];`
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
    """Split a source with blanked comments into pieces; None if its brackets do not match, or are too many."""
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
                cut(match.start())  # a directive ends an unfinished piece, and is one line
            cut(match.end())
    cut(len(quiet))
    return None if depth else pieces


def _ends_at_brace(head: str) -> bool:
    """Does a piece that begins with `head` end with its block?  After the block of a type or a value more follows."""
    if not head or re.match(rf"{_CONTROL}|namespace\b|inline\s+namespace\b", head) or head == 'extern ""':
        return True
    if re.search(r"\)\s*(?:noexcept\s*)?:(?!:)[^?]*[\w>]$", head):
        return False  # the initialiser of a member, in a constructor
    if re.sub(r"operator\s*\S+\s*\(\)", "", head).replace("==", "").find("=") >= 0:
        return False
    if head.startswith("template"):
        head = re.sub(r"^template\s*<[^{}()]*>\s*(?:requires\b.*?(?=\b(?:struct|class|auto|void)\b))?", "", head)
    return "()" in head


def _foreign(item: str) -> set[str]:
    """List the names that an item uses and does not declare: variables of these names have to stay outside, too."""
    return set() if item.startswith("#") else set(_SPOKEN.findall(item)) - set(_OWN.findall(item))


def _flat(text: str) -> str:
    """Remove the contents of brackets from a piece, and put it on one line."""
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
