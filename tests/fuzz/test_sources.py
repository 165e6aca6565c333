"""Sources, manifests and error texts of tenants: the server reads each of them in a moment, however they are written.

Python's pattern matcher holds the whole process while it looks, also from a thread.  So a text that it can read in very
many ways stops the server for everybody.  The texts here repeat a fragment: that is how such a text is made.
"""

from __future__ import annotations

import json
import subprocess
import sys

from tests.fuzz.budget import SECONDS, SEED

MOST_CPU_S = 5  # for one text; the slowest honest ones take half a second
READ_IN_TURN = r"""
import json, resource, sys, time
from random import Random

from cloche import languages
from cloche.engine.judge import find_traceback
from cloche.errors import ClocheError
from cloche.languages.detection import detect
from cloche.languages.language import HOME, Project

seconds, seed, most_cpu_s = json.loads(sys.argv[1])
FRAGMENTS = [
    *"abA_1 \t\n;:,.<>(){}[]*&?!=+-/\\\"'`#@$%^|~\u00e9",
    *("::", "->", "=>", "//", "/*", "*/", "..", "...", "\\\n", "\\\"", "\n\n", "\n ", "\r\n"),
    *("[[", "]]", "${", "$(", "@a "),
    *("a<b> ", "a ", "a:", "a=", "a,", "(a)", "{}", "<a", "a>", "::a", "*a ", "&a ", "a.b", "1.", "0x", "'a'", '"a"'),
    *("int ", "const ", "static ", "public ", "class a ", "template<", "#include ", "use "),
    *("import ", "from a ", "let a=", "module ", "function ", "package "),
    *("fn a ", "fn a<", "mod a ", "#[a]\n", "impl ", "where ", "func f", "def ", "end ", "async "),
    *("await ", "export * "),
    *("<?php ", "<<A\n", "=begin\n", "--[[", "'" * 3, '"' * 3, "#!", "---\n", "`" * 3, "R\"a("),
    *("\x1b[31m", "[a]\n", "a.b.c."),
    *('{"a":', '"a":"', "\\u0041", "a = [", "Error: ", "error: ", "main.c:1:2: ", "at a(b:1)\n"),
    *('  File "a", line 1\n', "a'b"),
    *("Traceback (most recent call last):\n", "Exception in thread ", "panicked at "),
]
PREFIXES = ["", "int f() ", "int main() {", "x = ", "class A { ", "(", '"', "'", "/*", "`", "import {", "<?php "]
SUFFIXES = ["", "?;", "!", "\0", "\n}", "$", "(", '"', ")"]
# Past findings: the prefix, the fragment and the suffix.
FOUND_BEFORE = [
    ("int f() ", "::", "?;"), ("fn main() ", "::a", "?;"), ("", "a<b> ", "?;"),  # C and C++
    ("let a = b?; ", "fn a ", ""), ("", "a.b.c.", "\n}"),  # Rust
    ("", ".", ")"),  # R
    ("", '"\\', ""),  # manifests of JavaScript
]
NAME = "main.x"
FOUND = [each for each in languages.everything() if languages.tools(each) is not None]


def readers(text):
    yield "detection", lambda: detect(text)
    yield "traceback", lambda: find_traceback(text)
    for each in FOUND:
        names = {"x" + name if name.startswith(".") else name: text for name in each.reads}
        for is_snippet, code, texts in ((True, text, {}), (False, "int main() {}", names)):
            files = frozenset((NAME, *texts))
            project = Project(f"{HOME}/{NAME}", code, HOME, files, is_snippet, "report", 1.0, 1 << 30, texts)
            if is_snippet or texts:
                yield f"plan of {each.name}", lambda: each.plan_for(project, languages.tools(each))
        if each.explain is not None:
            yield f"errors of {each.name}", lambda: each.explain(text)
        if each.diagnose is not None:
            yield f"diagnostics of {each.name}", lambda: each.diagnose(text[: 64 << 10], project)
        if each.manifest_entries is not None:
            yield f"manifest of {each.name}", lambda: each.manifest_entries(each.manifests[0], text)


def texts():
    for size in (40, 3000, 250_000):
        for prefix, fragment, suffix in FOUND_BEFORE:
            yield prefix + (fragment * size)[:size] + suffix
    end, random = time.monotonic() + seconds, Random(seed)
    while time.monotonic() < end:
        fragment = "".join(random.choice(FRAGMENTS) for _ in range(random.choice((1, 1, 2, 2, 3))))
        size = random.choice((40, 3000, 60_000, 250_000))
        yield random.choice(PREFIXES) + (fragment * size)[:size] + random.choice(SUFFIXES)


count = 0
for text in texts():
    for name, read in readers(text):
        print(json.dumps([name, text[:60], len(text), text[-20:]]), flush=True)
        used = resource.getrusage(resource.RUSAGE_SELF)
        # The kernel ends the process if the text takes too long: no Python code has its turn then.
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + most_cpu_s + 1, -1))
        try:
            read()
        except ClocheError:
            pass
        count += 1
print(json.dumps(["over", count]))
"""


def test_no_text_of_a_tenant_takes_long_to_read() -> None:
    order = json.dumps([SECONDS, SEED, MOST_CPU_S])
    # To the end of the time, and of the text that was begun before.
    done = subprocess.run(
        [sys.executable, "-c", READ_IN_TURN, order], capture_output=True, text=True, timeout=SECONDS + 100, check=False
    )
    last = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0, f"CLOCHE_FUZZ_SEED={SEED}: {last} {done.stderr[-2000:]}"
    assert last[0] == "over"
    assert last[1] > 100
