"""Splits text of any language into lines of tokens: drops comments, and makes one token of each string.

Every step is bounded, so that hostile text costs no more than other text of its length.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    Token = tuple[str, str]  # text and kind (empty for a sign)

LOOK_AT = 64 * 1024  # characters at most
MOST_TOKENS = 3000

_TOKEN = re.compile(
    r"""
    (?P<newline>\n)
  | (?P<space>[^\S\n]+|\\(?=\n)|[\x00-\x08\x0e-\x1f])
  | (?P<url>\b(?:https?|ftp|postgres|postgresql|redis)://[^\s"'`)>]{0,400}+)
  | (?P<block>/\*|<!--|--\[=*\[|\#=(?=\s)|\"\"\"|'''|<<[-~]?["']?[A-Z_]{2,40}["']?)
  | (?P<directive>\#(?:include|define|ifdef|ifndef|if|elif|else|endif|pragma|undef|error)\b)
  | (?P<comment>\#(?=[\s!\#-]|$)|//(?!=)|--(?=\s|$))
  | (?P<lifetime>(?<=[&<])'[a-z_]\w{0,20}\b(?!'))
  | (?P<string>[rbfuRBFU]{0,2}"(?:[^"\\\n]|\\.){0,300}+"|(?:\b[rbfuRBFU]{1,2}|(?<!\w))'(?:[^'\\\n]|\\.){0,300}+')
  | (?P<template>`[^`]{0,1000}+`)
  | (?P<field>(?<=[\w)\]])\$[A-Za-z_][\w.]*)
  | (?P<variable>\$\w+)
  | (?P<at>@@?\w+(?:\.\w+){0,5})
  | (?P<symbol>(?<=[\s(,\[{|&]):[A-Za-z_]\w*[?!]?)
  | (?P<flag>(?<=\s)--?[A-Za-z][\w-]*)
  | (?P<macro>[A-Za-z_]\w{0,60}!(?=[(\[{]))
  | (?P<question>[A-Za-z_]\w{0,60}\?(?=[\s)]|$))
  | (?P<redirect>2>(?:&1|/dev/null)|>&2|>[ ]?/dev/null)
  | (?P<number>\d\w*(?:\.\d\w*)?)
  | (?P<word>[^\W\d]\w*)
  | (?P<sign><\?php|<\?=|\?>|\#!?\[|\#\{|\$\(\(|[$][({]|[@%]\{|\$[@\#?!$*&;,/\\]|===|!==|<=>|<<<|<<=|>>=|>>>|
      \.\.\.|\.\.=|\|\|=|\?\?=|&&=|\*\*|->|=>|<-|:=|::|&&|\|\||\?\?|\?\.|\+\+|--|\+=|-=|\*=|/=|%=|\^=|==|!=|~=|=~|!~|
      <=|>=|<<|>>|%>%|%in%|%\*%|%/%|%%|\|>|<:|\.[-+*/^](?=[\s(\w])|;;|\.\.|\[\[|\]\]|</|/>|.)
    """,
    re.VERBOSE | re.MULTILINE,
)
_KINDS = {
    "url": "STRING",
    "lifetime": "LIFETIME",
    "field": "FIELD",
    "variable": "$NAME",
    "at": "@NAME",
    "symbol": ":NAME",
    "flag": "-FLAG",
    "macro": "NAME!",
    "question": "NAME?",
    "number": "NUMBER",
    "word": "NAME",
    "directive": "#NAME",
    "redirect": "",
    "sign": "",
}
KINDS = frozenset(("BOL", "EOL", "TRIPLE", "HEREDOC", "STRING", "fSTRING", "TEMPLATE", *_KINDS.values())) - {""}
_BLOCKS = {
    "/*": ("*/", "COMMENT/*"),
    "<!--": ("-->", "COMMENT<!"),
    "#=": ("=#", "COMMENT#="),
    '"""': ('"""', "TRIPLE"),
    "'''": ("'''", "TRIPLE"),
}
_IN_STRING = re.compile(r"(#\{)|(\$\w)|(\$\{)|(\$\()|(%[-0-9.]*l*[dsufxcg]\b)|(\{\w*(?::[^}\s]{0,10})?\})|([@%]\{)")
_IN_STRING_NAMES = ("IN#{", "IN$NAME", "IN${", "IN$(", "IN%d", "IN{}", "IN@{")


class TokenizedText:
    """The tokens of a text, by line, and notes on its comments and on what its strings contain."""

    def __init__(self, code: str) -> None:
        self.lines: list[list[Token]] = []
        self.notes: dict[str, int] = {}
        self._unclosed: set[str] = set()
        text = code[:LOOK_AT].removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        self._read(text)

    def _read(self, text: str) -> None:
        line: list[Token] = []
        place = 0
        for _ in range(MOST_TOKENS):
            found = _TOKEN.match(text, place)
            if found is None:
                break
            name, value = found.lastgroup or "", found[0]
            place = found.end()
            if name == "comment" or (value == "#" and not line and text[place : place + 1].isalnum()):
                end = text.find("\n", place)
                place = end if end >= 0 else len(text)
                self._note(f"COMMENT{value}")
            elif name == "newline":
                self._end(line)
                line = []
            elif name == "block":
                kind, place = self._block(text, value, place)
                if kind.startswith("COMMENT"):
                    self._note(kind)
                else:
                    line.append((value, kind))
            elif name in ("string", "template"):
                line.append((value, self._string(value)))
            elif name in _KINDS:
                line.append((value, _KINDS[name]))
        self._end(line)

    def _end(self, line: list[Token]) -> None:
        if line:
            self.lines.append([("", "BOL"), *line, ("", "EOL")])

    def _block(self, text: str, opened: str, place: int) -> tuple[str, int]:
        """Return the kind of the block that is opened here, and the position behind its closing mark."""
        if opened.startswith("<<"):
            closing, kind = "\n" + opened.strip("<-~\"'"), "HEREDOC"
        elif opened.startswith("--"):
            closing, kind = "]" + opened[3:-1] + "]", "COMMENT--"
        else:
            closing, kind = _BLOCKS[opened]
        end = -1 if closing in self._unclosed else text.find(closing, place)
        if end >= 0:
            return kind, end + len(closing)
        self._unclosed.add(closing)
        return (kind if kind in ("HEREDOC", "TRIPLE") else ""), place

    def _string(self, value: str) -> str:
        """Return the kind of a string, and note what it contains."""
        if value[0] == "`":
            if "${" in value:
                self._note("IN`${")
            return "TEMPLATE"
        if value[0] == '"':
            for found in _IN_STRING.finditer(value):
                self._note(_IN_STRING_NAMES[(found.lastindex or 1) - 1])
        return "fSTRING" if value[0] in "fF" or (value[1] in "fF" and value[0] in "rR") else "STRING"

    def _note(self, name: str) -> None:
        self.notes[name] = self.notes.get(name, 0) + 1
