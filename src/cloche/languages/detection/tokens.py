"""Text becomes lines of tokens, whatever language it is in: comments are dropped, strings become one token each.

Every step is bounded, so that hostile text costs no more than other text of its length.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Token = tuple[str, str]  # what it says, and what kind it is (empty for a sign)

LOOK_AT = 64 * 1024  # characters
MOST_TOKENS = 5000

_TOKEN = re.compile(
    r"""
    (?P<newline>\n)
  | (?P<space>[^\S\n]+|\\(?=\n)|[\x00-\x08\x0e-\x1f])
  | (?P<url>\b(?:https?|ftp|postgres|postgresql|redis)://[^\s"'`)>]{0,400}+)
  | (?P<block>/\*|<!--|--\[=*\[|\#=(?=\s)|\"\"\"|'''|<<[-~]?["']?[A-Z_]{2,40}["']?)
  | (?P<directive>\#\s?(?:include|define|ifdef|ifndef|if|elif|else|endif|pragma|undef|error)\b(?![^\n]{0,200}:\s*\n))
  | (?P<comment>\#(?=[\s!]|$)|\#(?=\#|-)|(?<![^\n\s])\#(?=\w)(?<=^\#)|//(?!=)|--(?=\s|$))
  | (?P<string>[rbfuRBFU]{0,2}"(?:[^"\\\n]|\\.){0,300}+"|(?:\b[rbfuRBFU]{1,2}|(?<!\w))'(?:[^'\\\n]|\\.){0,300}+')
  | (?P<template>`[^`]{0,1000}+`)
  | (?P<lifetime>'[a-z_]\w{0,20}(?!'))
  | (?P<variable>\$\w+)
  | (?P<at>@@?\w+(?:\.\w+){0,5})
  | (?P<symbol>(?<=[\s(,\[{|&]):[A-Za-z_]\w*[?!]?)
  | (?P<flag>(?<=\s)--?[A-Za-z][\w-]*)
  | (?P<macro>[A-Za-z_]\w{0,60}!(?=[(\[{]))
  | (?P<question>[A-Za-z_]\w{0,60}\?(?=[\s)]|$))
  | (?P<number>\d\w*(?:\.\d\w*)?)
  | (?P<word>[^\W\d]\w*)
  | (?P<sign><\?php|<\?=|\?>|\#!?\[|\#\{|\$\(\(|[$][({]|[@%]\{|\$[@\#?!$*&;,/\\]|@_|===|!==|<=>|<<<|<<=|>>=|>>>|\.\.\.|\.\.=|
      \|\|=|\?\?=|&&=|\*\*|->>|->|=>|<-|:=|::|&&|\|\||\?\?|\?\.|\+\+|--|\+=|-=|\*=|/=|%=|\^=|==|!=|~=|=~|!~|<=|>=|
      <<|>>|%>%|%in%|%\*%|%/%|%%|\|>|<:|\.[-+*/^](?=[\s(\w])|;;|\.\.|\[\[|\]\]|&>|2>|</|/>|.)
    """,
    re.VERBOSE | re.MULTILINE,
)
_KINDS = {
    "url": "STRING",
    "string": "STRING",
    "template": "TEMPLATE",
    "lifetime": "LIFETIME",
    "variable": "$NAME",
    "at": "@NAME",
    "symbol": ":NAME",
    "flag": "-FLAG",
    "macro": "NAME!",
    "question": "NAME?",
    "number": "NUMBER",
    "word": "NAME",
    "directive": "#NAME",
}
_CLOSES = {"/*": "*/", "<!--": "-->", '"""': '"""', "'''": "'''", "#=": "=#"}
_INSIDE = re.compile(r"(#\{)|(\$\w)|(\$\{)|(\$\()|(%[-0-9.]*l*[dsufxcg]\b)|(\{\w*(?::[^}\s]{0,10})?\})|([@%]\{)")
_INSIDE_NAMES = ("IN#{", "IN$NAME", "IN${", "IN$(", "IN%d", "IN{}", "IN@{")


def lines_of(code: str) -> Iterator[list[Token]]:
    """The lines that say something, each as its tokens between `BOL` and `EOL`."""
    text = code[:LOOK_AT].removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    line: list[Token] = []
    for found in _tokens(text):
        if found[1] != "newline":
            line.append(found)
        elif line:
            yield [("", "BOL"), *line, ("", "EOL")]
            line = []
    if line:
        yield [("", "BOL"), *line, ("", "EOL")]


def _tokens(text: str) -> Iterator[Token]:
    place, unclosed = 0, set[str]()
    for _ in range(MOST_TOKENS):
        found = _TOKEN.match(text, place)
        if found is None:
            return
        name, said = found.lastgroup or "", found[0]
        place = found.end()
        if name == "newline":
            yield "", "newline"
        elif name == "comment":
            end = text.find("\n", place)
            place = end if end >= 0 else len(text)
            yield said, "COMMENT" + said[:2].replace("##", "#").replace("#-", "#")
        elif name == "block":
            token, place = _block(text, said, place, unclosed)
            yield token
        elif name in ("string", "template"):
            yield from _string(said, name)
        elif name in _KINDS:
            yield said.replace(" ", ""), _KINDS[name]
        elif name == "sign":
            yield said, ""


def _block(text: str, opened: str, place: int, unclosed: set[str]) -> tuple[Token, int]:
    """What stands from here to its closing mark as one token, and where to go on."""
    kind = "COMMENT"
    if opened[0] in "\"'":
        kind = "TRIPLE"
    elif opened.startswith("<<"):
        kind = "HEREDOC"
    closing = _CLOSES.get(opened) or ("]" + "=" * (len(opened) - 4) + "]" if opened[0] == "-" else "")
    if kind == "HEREDOC":
        closing, place = "\n" + opened.strip("<-~\"'"), max(text.find("\n", place), place)
    end = -1 if closing in unclosed else text.find(closing, place)
    if end < 0:
        unclosed.add(closing)
        return (opened, kind if kind != "COMMENT" else ""), place
    named = {"/*": "COMMENT/*", "<!--": "COMMENT<!", "#=": "COMMENT#="}
    return (opened, named.get(opened, "COMMENT--" if kind == "COMMENT" else kind)), end + len(closing)


def _string(said: str, name: str) -> Iterator[Token]:
    if name == "template":
        yield said, "TEMPLATE"
        if "${" in said:
            yield "", "IN`${"
        return
    quote = said[-1]
    prefix = said[: said.index(quote)].lower()
    yield said, "fSTRING" if "f" in prefix else "STRING"
    if quote == '"' and not prefix:
        for number in {found.lastindex or 0 for found in _INSIDE.finditer(said)}:
            yield "", _INSIDE_NAMES[number - 1]
