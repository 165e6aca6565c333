import re
from pathlib import Path

import cloche.environment
from cloche.environment import typescript
from cloche.languages.typescript import checker


def test_declarations_lose_their_comments_and_nothing_else():
    declarations = """/*! Licence */
/// <reference path="other.d.ts" />

/**
 * Documentation of `f`: "quoted".
 */
declare function f(url: "http://x/*y*/", other: 'it\\'s // no comment'): `//${string}`; // why
"""
    assert typescript.without_comments(declarations) == (
        """/// <reference path="other.d.ts" />
declare function f(url: "http://x/*y*/", other: 'it\\'s // no comment'): `//${string}`;
"""
    )


def test_who_names_a_rare_module_or_what_it_declares_gets_all_declarations():
    whole = Path(cloche.environment.location(), "lib", "node_modules", "@types", "node")
    for name in typescript.RARE.split():
        declared = re.findall(
            r"^(?:declare )?(?:var|function|interface|class) ([A-Za-z]\w*)", (whole / f"{name}.d.ts").read_text(), re.M
        )
        if not name.startswith("web-globals/"):
            declared = [name.partition(".")[0]]
        assert declared
        assert {each for each in declared if checker.declarations(f"use({each})")} == set()


def test_the_compilers_are_on_the_path():
    for name in typescript.PROGRAMS:
        assert Path(cloche.environment.location(), "bin", name).resolve().stat().st_mode & 0o111
