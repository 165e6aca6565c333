"""The list of a session's variables: complete, bounded, and made without running any code of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche.engine.inside_variables import MAX_LISTED, MAX_NAME, MAX_SHOWN, listed
from cloche.kernels.variable_report import described

HOSTILE = """
import builtins, os, sys, time
def caught(*_, **__):
    open('/sandbox/caught', 'a').write('caught')
    while True: time.sleep(1)
class Meta(type):
    __repr__ = __getattribute__ = __instancecheck__ = __subclasscheck__ = caught
class WithMeta(metaclass=Meta): pass
class Hostile:
    __repr__ = __str__ = __len__ = __iter__ = __sizeof__ = __getattribute__ = __eq__ = __hash__ = __bool__ = caught
    __class__ = __dict__ = property(caught)
class Text(str):
    __repr__ = __str__ = __len__ = __getitem__ = caught
class Items(list):
    __repr__ = __len__ = __iter__ = __getitem__ = caught
class Table(dict):
    __repr__ = __len__ = __iter__ = items = keys = caught
class Point:
    def __init__(self): self.x, self.other = 1, hostile
    __repr__ = caught
hostile, with_meta, text, items, table = Hostile(), WithMeta(), Text('a'), Items([1]), Table(a=1)
point, nested = Point(), [Hostile(), {'a': Hostile()}, [[[[[1]]]]]]
globals()[Text('odd')] = 1
"""


@pytest.fixture(scope="module")
def js(warm: None) -> Iterator[cloche.Sandbox]:
    with cloche.Sandbox() as box:
        yield box


def shown(box: cloche.Sandbox, context: str | None = None) -> dict[str, tuple[str, str, str]]:
    found = box.variables(context)
    assert found.state == "ready"
    assert found.total == len(found.items)
    return {one.name: (one.type, one.shape, one.shown) for one in found.items}


def test_values_have_a_type_a_shape_and_a_beginning(shared: cloche.Sandbox) -> None:
    shared.run("count, name, towns, prices = 3, 'Ada', ['Bern', 'Rome'], {'tea': 1.5}\ndef area(width, height): pass")
    found = shown(shared)
    assert found["count"] == ("int", "", "3")
    assert found["name"] == ("str", "3", "'Ada'")
    assert found["towns"] == ("list", "2", "['Bern', 'Rome']")
    assert found["prices"] == ("dict", "1", "{'tea': 1.5}")
    assert found["area"] == ("function", "", "area(width, height)")


def test_a_session_without_code_has_none_and_modules_are_none(box: cloche.Sandbox) -> None:
    assert box.variables().items == ()
    box.run("import math, os as system\n_private = 1")
    assert shown(box) == {}


def test_tables_and_arrays_show_their_dimensions_and_first_values(shared: cloche.Sandbox) -> None:
    shared.run(
        "import numpy as np, pandas as pd\nframe = pd.DataFrame({'town': ['Bern', 'Rome'], 'sold': [3, 5]})\n"
        "series, array, number = frame['sold'], np.arange(6.0).reshape(2, 3), np.float64(1.5)"
    )
    found = shown(shared)
    assert found["frame"] == ("DataFrame", "2 × 2", "town, sold")  # noqa: RUF001
    assert found["series"] == ("Series", "2", "int64 [3, 5]")
    assert found["array"] == ("ndarray", "2 × 3", "float64 [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]")  # noqa: RUF001
    assert found["number"] == ("float64", "", "1.5")
    (frame,) = shared.variables(name="frame").items
    assert [line.split() for line in frame.shown.split("\n")] == [["town", "sold"], ["Bern", "3"], ["Rome", "5"]]


def test_hostile_values_are_not_asked(box: cloche.Sandbox) -> None:
    assert box.run(HOSTILE).ok
    found = shown(box)
    assert found["hostile"] == ("Hostile", "", "<Hostile>")
    assert found["with_meta"] == ("WithMeta", "", "<WithMeta>")
    assert found["text"][0] == "Text"
    assert found["point"] == ("Point", "", "Point(x=1, other=<Hostile>)")
    assert found["nested"] == ("list", "3", "[<Hostile>, {'a': <Hostile>}, [[[…]]]]")
    for name in found:
        assert len(box.variables(name=name).items) == 1
    assert box.run("import os; os.path.exists('/sandbox/caught')").text == "False"


def test_it_leaves_no_trace_in_the_history(box: cloche.Sandbox) -> None:
    box.run("6 * 7")
    box.variables()
    assert box.run("_").text == "42"
    assert box.run("len(In), sorted(Out)").text == "(4, [1, 2])"
    assert len(box.history()) == 3


def test_ten_thousand_variables_are_searched_and_counted(box: cloche.Sandbox) -> None:
    box.run("for n in range(10_000): globals()[f'v{n}'] = ['x' * 100] * 100")
    found = box.variables()
    assert (len(found.items), found.total) == (MAX_LISTED, 10_001)
    assert max(len(one.shown) for one in found.items) <= MAX_SHOWN
    found = box.variables(search="V999")
    assert ({one.name for one in found.items} == {"v999", *(f"v999{n}" for n in range(10))}, found.total) == (True, 11)


def test_a_single_variable_shows_more_of_its_value(shared: cloche.Sandbox) -> None:
    shared.run("long = 'line\\n' * 100_000\nmany = list(range(1000))")
    assert shared.variables(name="long").items[0].shown.startswith("line\nline\n")
    assert len(shared.variables(name="long").items[0].shown) == 8000
    assert "899, 900" in shared.variables(name="many").items[0].shown
    assert shared.variables(name="missing").items == ()


def test_a_session_that_runs_code_is_busy(box: cloche.Sandbox) -> None:
    events = box.stream("kept = 1\ninput()", interactive=True)
    for event in events:
        if event.kind == "started":
            assert box.variables().state == "busy"
            events.write("go\n")
    assert "kept" in shown(box)


def test_a_kernel_that_does_not_answer_is_busy_and_not_ended(box: cloche.Sandbox) -> None:
    box.run("import builtins, time\nkept, builtins.sorted = 1, lambda *_, **__: time.sleep(7)")  # which the list uses
    assert box.variables().state == "busy"
    assert box.run("kept").text == "1"  # once it has woken up


def test_a_restart_empties_the_list(box: cloche.Sandbox) -> None:
    box.run("kept = 1")
    box.restart()
    assert shown(box) == {}


def test_javascript_and_typescript_are_listed_without_calling_getters(js: cloche.Sandbox) -> None:
    js.run(
        "const forever = () => { while (true); };\n"
        "let list = [1, 'two'], none = null, map = new Map([['a', 1]]), word = 'cloche';\n"
        "const odd = { x: 1, get y() { forever(); }, toString: forever, [Symbol.toPrimitive]: forever };\n"
        "const proxy = new Proxy({}, { get: forever, ownKeys: forever, getPrototypeOf: forever });\n"
        "Object.defineProperty(globalThis, 'trap', { get: forever, configurable: true });",
        language="javascript",
    )
    js.run("const typed: number = 7", language="typescript")
    found = shown(js, "javascript")
    assert found["list"] == ("Array", "2", '[1, "two"]')
    assert found["none"] == ("null", "", "null")
    assert found["map"] == ("Map", "1", 'Map(1) {"a" => 1}')
    assert found["word"] == ("string", "6", '"cloche"')
    assert found["odd"][2].startswith("{x: 1, y: accessor")
    assert found["proxy"][0] == "Object"
    assert found["trap"] == ("", "", "")
    assert found["typed"] == ("number", "", "7")
    assert js.run("list.length", language="javascript").text == "2"


def test_bash_lists_what_cells_made_and_follows_no_reference(box: cloche.Sandbox) -> None:
    def sh(code: str) -> cloche.Result:
        return box.run(code, language="bash")

    sh(
        "word=$'a\\n\\e[31m'; declare -i n=5; list=(one 'two three'); declare -A map=(['$(touch /sandbox/caught)']=v)\n"
        "greet() { echo hi; }; export OUT=1 PATH=\"$PATH:/x\"; declare -n ref='list[$(touch /sandbox/caught)]'\n"
        "count=0; trap 'count=$((count+1))' DEBUG"
    )
    before = int(sh("trap - DEBUG; echo $count").stdout)
    assert shown(box, "bash") == {
        "word": ("string", "7", r"$'a\n\E[31m'"),
        "n": ("integer", "1", "5"),
        "list": ("array", "2", "([0]='one' [1]='two three')"),
        "map": ("associative array", "1", "([$(touch /sandbox/caught)]='v')"),
        "greet": ("function", "", "greet()"),
        "OUT": ("string", "1", "'1'"),
        "ref": ("reference", "", ""),
        "count": ("string", str(len(str(before))), f"'{before}'"),
    }
    assert [one.shown for one in box.variables("bash", name="word").items] == ["a\n\\x1b[31m"]
    assert sh("trap 'count=$((count+1))' DEBUG; false").exit_code == 1
    counts = []
    for look in (False, True, False):
        if look:
            assert box.variables("bash", search="LIST").total == 1
        counts.append(int(sh("echo $? $count").stdout.split()[1]))
    assert counts[1] - counts[0] == counts[2] - counts[1]  # a trap does not notice a look
    assert sh("ls /sandbox/caught").exit_code != 0


def test_r_is_listed_without_methods_bindings_and_promises(box: cloche.Sandbox) -> None:
    needs("r")
    caught = "function(x, ...) { file.create('/sandbox/caught'); repeat {} }"
    made = box.run(
        f"print.odd <- format.odd <- length.odd <- dim.odd <- `[.odd` <- {caught}\n"
        "as.character.odd <- `[[.proc_time` <- print.odd\n"
        "odd <- structure(1:3, class = 'odd'); x <- 41; s <- 'größe\\033'; named <- c(a = 1, b = 2.5)\n"
        "towns <- data.frame(town = c('Bern', 'Rome'), sold = c(3L, 5L)); day <- as.Date('2024-02-29')\n"
        "f <- function(a, b) a; m <- matrix(1:6, 2)\n"
        "delayedAssign('late', file.create('/sandbox/caught')); big <- strrep('x', 1e7); said <- quote(a + b)\n"
        "makeActiveBinding('live', function() file.create('/sandbox/caught'), globalenv()); set.seed(1)",
        language="r",
    )
    assert made.ok, made.error
    found = {name: facts for name, facts in shown(box, "r").items() if "." not in name and "[" not in name}
    assert len(found.pop("big")[2]) == MAX_SHOWN
    assert found == {
        "odd": ("odd", "3", "c(1, 2, 3)"),
        "x": ("numeric", "1", "41"),
        "s": ("character", "1", '"größe\\033"'),
        "named": ("numeric", "2", "c(a = 1, b = 2.5)"),
        "m": ("matrix", "2 × 3", "c(1, 2, 3, 4, 5, 6)"),  # noqa: RUF001
        "towns": ("data.frame", "2 × 2", "town, sold"),  # noqa: RUF001
        "day": ("Date", "1", "2024-02-29"),
        "f": ("function", "", "function(a, b)"),
        "late": ("promise", "", 'file.create("/sandbox/caught")'),
        "said": ("call", "", "a + b"),
        "live": ("active binding", "", ""),
    }
    (towns,) = box.variables("r", name="towns").items
    assert [line.split() for line in towns.shown.split("\n")] == [["town", "sold"], ["Bern", "3"], ["Rome", "5"]]
    assert box.run("file.exists('/sandbox/caught')", language="r").text == "[1] FALSE"
    assert box.run("runif(1) == {set.seed(1); runif(1)}", language="r").text == "[1] TRUE"


def test_java_is_listed_without_the_methods_of_cells(box: cloche.Sandbox) -> None:
    needs("java")
    made = box.run(
        'class Armed { static boolean on; static String trap() { while (on) { } return "quiet"; } }\n'
        "class Odd extends ArrayList<Object> { public int size() { Armed.trap(); return 0; }\n"
        "    public String toString() { return Armed.trap(); } }\n"
        "record Point(int x, Object y) { public String toString() { return Armed.trap(); } }\n"
        "Point point = new Point(1, new Odd());\nList<Object> view = Collections.unmodifiableList(new Odd());\n"
        'Map<String, Integer> map = new TreeMap<>(Map.of("a", 1));\nint[][] grid = {{1, 2}, {3, 4}};\n'
        'String word = "a\\n\\u001b";\nArmed.on = true;\nint x = 41;\n',
        language="java",
        timeout=120,
    )
    assert made.ok, made.error
    assert shown(box, "java") == {
        "point": ("Point", "", "Point[x=1, y=Odd[]]"),
        "view": ("List<Object>", "", "<java.util.Collections$UnmodifiableRandomAccessList>"),
        "map": ("Map<String, Integer>", "1", '["a"=1]'),
        "grid": ("int[][]", "2", "[[1, 2], [3, 4]]"),
        "word": ("String", "3", '"a\\n\\x1b"'),
        "x": ("int", "", "41"),
    }
    assert [one.shown for one in box.variables("java", name="word").items] == ["a\n\\x1b"]
    assert box.run("x", language="java").text == "41"


def test_a_search_is_short(box: cloche.Sandbox) -> None:
    with pytest.raises(cloche.InvalidRun):
        box.variables(search="x" * 101)


# What a kernel sends is not trusted.


@pytest.mark.embedded
def test_a_kernels_answer_is_cut_and_checked() -> None:
    row = {"name": "n" * 999, "type": 3, "shape": None, "size": -1, "shown": "s" * 99_999}
    found = listed({"items": [row, "no row", *[row] * 5000], "total": "many"})
    assert len(found.items) < MAX_LISTED
    assert found.total == len(found.items)
    first = found.items[0]
    assert (len(first.name), first.type, first.shape, first.size, len(first.shown)) == (MAX_NAME, "", "", 0, MAX_SHOWN)
    answers: list[dict[str, Any]] = [{}, {"items": 3, "total": True}, {"items": {"a": 1}}, {"items": [[], None]}]
    for answer in answers:
        assert listed(answer).items == ()


@pytest.mark.embedded
def test_an_interpreters_report_is_cut_and_checked() -> None:
    row = b"n" * 999 + b"\0\xff\0\0-1\0" + b"\x1b\n" * 9999 + b"\0"
    found = described(b"many\0" + row * 5000 + b"cut off\0int\0", False)
    assert 0 < len(found["items"]) == found["total"] <= MAX_LISTED
    first = found["items"][0]
    assert (len(first["name"]), first["type"], first["size"]) == (MAX_NAME, "\ufffd", 0)
    assert len(first["shown"]) == MAX_SHOWN
    assert first["shown"].isprintable()
    for data in (b"", b"\0", b"3\0", b"9" * 99 + b"\0a\0"):
        assert described(data, True)["items"] == []
