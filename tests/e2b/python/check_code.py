"""Code and contexts: `run_code` and all that comes back."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from e2b_code_interpreter import AsyncSandbox, Sandbox

from e2b import InvalidArgumentException, NotFoundException, SandboxException, TimeoutException


def test_variables_stay_and_values_come_back(shared: Sandbox) -> None:
    assert shared.run_code("x = 20").results == []
    done = shared.run_code("x += 1; print('x is', x); x * 2")

    assert (done.text, done.logs.stdout, done.logs.stderr, done.error) == ("42", ["x is 21\n"], [], None)
    assert done.results[0].is_main_result
    assert shared.run_code("1").execution_count == done.execution_count + 1


def test_texts_come_without_quotes_lists_and_dicts_as_json(shared: Sandbox) -> None:
    assert shared.run_code("'it''s'").text == "its"
    assert shared.run_code('"it\'s"').text == "it's"
    assert shared.run_code("''").text == ""
    assert shared.run_code("{'a': [1, None, 2.5]}").results[0].json == {"a": [1, None, 2.5]}
    assert shared.run_code("[1, 2]").results[0].json == [1, 2]


def test_output_arrives_in_order_and_with_its_time(shared: Sandbox) -> None:
    told: list[tuple[str, str]] = []
    done = shared.run_code(
        "import sys\n"
        "for n in range(3):\n"
        "    print('out', n, flush=True); print('err', n, file=sys.stderr, flush=True); display(n)\n"
        "7",
        on_stdout=lambda message: told.append(("out" if message.timestamp else "", message.line)),
        on_stderr=lambda message: told.append(("err" if message.error else "", message.line)),
        on_result=lambda result: told.append(("main" if result.is_main_result else "result", result.text)),
    )

    kinds = (("out", "out {}\n"), ("err", "err {}\n"), ("result", "{}"))
    assert told == [*((kind, text.format(n)) for n in range(3) for kind, text in kinds), ("main", "7")]
    assert [result.text for result in done.results] == ["0", "1", "2", "7"]


def test_an_exception_comes_back_as_one(shared: Sandbox) -> None:
    seen: list[str] = []
    done = shared.run_code("print('before'); 1 / 0", on_error=lambda error: seen.append(error.name))

    assert (done.error.name, done.error.value) == ("ZeroDivisionError", "division by zero")
    assert "1 / 0" in done.error.traceback
    assert seen == ["ZeroDivisionError"]
    assert done.logs.stdout == ["before\n"]
    assert shared.run_code("def f(:").error.name == "SyntaxError"
    assert shared.run_code("raise SystemExit(3)").error.name == "SystemExit"


def test_every_form_finds_its_field(shared: Sandbox) -> None:
    done = shared.run_code(
        "from IPython.display import HTML, Markdown, SVG, Latex, JSON, Javascript\n"
        "for one in (HTML('<b>x</b>'), Markdown('*x*'), SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>'),\n"
        "            Latex('$x$'), JSON({'x': 1}), Javascript('x()')):\n"
        "    display(one)\n"
        "display({'application/vnd.ours': 'x', 'text/plain': 'x'}, raw=True)"
    )
    html, markdown, svg, latex, json, javascript, odd = done.results

    assert html.html == "<b>x</b>"
    assert markdown.markdown == "*x*"
    assert svg.svg.startswith("<svg")
    assert latex.latex == "$x$"
    assert json.json == {"x": 1}
    assert javascript.javascript == "x()"
    assert (odd.text, odd.extra) == ("x", {"application/vnd.ours": "x"})


def test_a_table_comes_as_data(shared: Sandbox) -> None:
    done = shared.run_code(
        "import pandas as pd\n"
        "pd.DataFrame({'n': [1, 2], 'when': pd.to_datetime(['2026-01-01', '2026-01-02']), 's': ['a', None]})"
    )
    shown = done.results[0]

    when = ["2026-01-01T00:00:00", "2026-01-02T00:00:00"]
    assert shown.data == {"n": [1, 2], "when": when, "s": ["a", None]}
    assert "<table" in shown.html
    many = shared.run_code("pd.DataFrame({'n': range(3000)})").results[0]
    assert many.data == {"n": list(range(3000))}


CHARTS = {
    "line": "ax.plot([1, 2, 3], [2, 4, 8], label='growth'); ax.set_xlabel('time (s)')",
    "scatter": "ax.scatter([1, 2, 3], [3, 1, 2], label='points')",
    "bar": "ax.bar(['a', 'b'], [10, 20])",
    "pie": "ax.pie([1, 3], labels=['one', 'three'])",
    "box_and_whisker": "ax.boxplot([[1, 2, 3, 4, 20], [2, 3, 4]])",
}


@pytest.mark.parametrize("kind", CHARTS)
def test_a_chart_of_each_kind(shared: Sandbox, kind: str) -> None:
    code = f"import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\n{CHARTS[kind]}\nax.set_title('T')\nplt.show()"
    (shown,) = shared.run_code(code).results
    chart = shown.chart

    assert shown.png.startswith("iVBOR")
    assert (chart.type, chart.title) == (kind, "T")
    first = chart.elements[0]
    if kind == "line":
        assert (first.label, first.points) == ("growth", [(1.0, 2.0), (2.0, 4.0), (3.0, 8.0)])
        assert (chart.x_label, chart.x_unit, chart.x_scale) == ("time (s)", "s", "linear")
        assert chart.y_label is None
    elif kind == "scatter":
        assert first.points == [(1.0, 3.0), (2.0, 1.0), (3.0, 2.0)]
    elif kind == "bar":
        assert [(bar.label, bar.value, bar.group) for bar in chart.elements] == [("a", 10.0, ""), ("b", 20.0, "")]
    elif kind == "pie":
        assert [(slice.label, slice.angle, slice.radius) for slice in chart.elements] == [
            ("one", 90.0, 1.0),
            ("three", 270.0, 1.0),
        ]
    else:
        assert (first.min, first.median, first.max, first.outliers) == (1.0, 3.0, 4.0, [20.0])


def test_several_charts_in_one_figure(shared: Sandbox) -> None:
    code = (
        "import matplotlib.pyplot as plt\nfig, (a, b) = plt.subplots(1, 2)\n"
        "a.plot([1, 2]); b.bar(['x'], [1]); fig.suptitle('both'); plt.show()"
    )
    chart = shared.run_code(code).results[0].chart

    assert (chart.type, chart.title, [one.type for one in chart.elements]) == ("superchart", "both", ["line", "bar"])


def test_every_language(shared: Sandbox) -> None:
    assert shared.run_code("const n = 20; n + 1", language="javascript").text == "21"
    assert shared.run_code("n * 2", language="js").text == "40"
    assert shared.run_code("const t: number = 4; t", language="TypeScript").text == "4"
    assert shared.run_code("name=bash; echo hello $name", language="bash").logs.stdout == ["hello bash\n"]
    assert shared.run_code("throw new Error('no')", language="js").error.name == "Error"
    with pytest.raises(SandboxException, match="cobol"):
        shared.run_code("1", language="cobol")


def test_r_where_the_host_has_it(shared: Sandbox) -> None:
    done = shared.run_code("x <- 20; print('hello')", language="r")
    if done.error is not None and done.error.name == "LanguageUnavailable":
        pytest.skip("there is no R on this host")
    assert "".join(done.logs.stdout) == '[1] "hello"\n'
    assert shared.run_code("x + 1", language="R").text == "[1] 21"


def test_java_where_the_host_has_it(shared: Sandbox) -> None:
    done = shared.run_code('System.out.println("hello");', language="java")
    if done.error is not None and done.error.name == "LanguageUnavailable":
        pytest.skip("there is no Java on this host")
    assert done.logs.stdout == ["hello", "\n"]
    variable = 'System.getProperty("ONCE", "default")'
    assert shared.run_code(variable, language="java", envs={"ONCE": "once"}).text == "once"
    assert shared.run_code(variable, language="java").text == "default"


def test_pictures_are_displayed_when_they_are_shown_and_when_they_are_saved(shared: Sandbox) -> None:
    shared.run_code("from PIL import Image; picture = Image.new('RGB', (4, 4))")
    for code in ("picture", "picture.show()", "picture.save('a.png')"):
        (shown,) = shared.run_code(code).results
        assert shown.png.startswith("iVBOR")


def test_code_begins_at_home(shared: Sandbox) -> None:
    assert shared.run_code("import os; os.getcwd(), os.environ['HOME']").text == "('/home/user', '/home/user')"
    assert shared.run_code("process.cwd()", language="js").text == "/home/user"
    assert shared.run_code("pwd", language="bash").logs.stdout == ["/home/user\n"]
    assert shared.create_code_context(cwd="/home/user/new").cwd == "/home/user/new"


def test_contexts(sandbox: Sandbox) -> None:
    assert [one.language for one in sandbox.list_code_contexts()] == ["python", "javascript"]
    context = sandbox.create_code_context(cwd="/tmp")
    assert (context.language, context.cwd) == ("python", "/tmp")
    assert [one.id for one in sandbox.list_code_contexts()][-1] == context.id

    sandbox.run_code("y = 1")
    sandbox.run_code("y = 2", context=context)
    assert sandbox.run_code("y").text == "1"
    assert sandbox.run_code("import os; y, os.getcwd()", context=context).text == "(2, '/tmp')"
    sandbox.restart_code_context(context)
    assert sandbox.run_code("y", context=context).error.name == "NameError"
    sandbox.remove_code_context(context)
    assert context.id not in [one.id for one in sandbox.list_code_contexts()]
    with pytest.raises(NotFoundException):
        sandbox.run_code("y", context=context)
    with pytest.raises(NotFoundException):
        sandbox.restart_code_context("no-such")
    with pytest.raises(InvalidArgumentException):
        sandbox.run_code("y", context=context, language="python")


def test_environment_of_a_sandbox_and_of_one_call() -> None:
    with Sandbox.create(envs={"OURS": "all"}) as sandbox:
        code = "import os; [os.environ.get(name) for name in ('OURS', 'MINE', 'E2B_SANDBOX', 'E2B_SANDBOX_ID')]"
        identity = sandbox.sandbox_id
        assert sandbox.run_code(code, envs={"MINE": "once"}).results[0].json == ["all", "once", "true", identity]
        assert sandbox.run_code(code, envs={"OURS": "other"}).results[0].json == ["other", None, "true", identity]
        assert sandbox.run_code(code).results[0].json == ["all", None, "true", identity]


def test_cells_of_one_context_take_turns(shared: Sandbox) -> None:
    shared.run_code("import time; order = []")
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(shared.run_code, f"time.sleep(0.1); order.append({n})") for n in range(3)]
        assert [run.result().error for run in runs] == [None] * 3
    assert sorted(shared.run_code("order").results[0].json) == [0, 1, 2]


def test_a_client_that_gives_up_interrupts_its_code(shared: Sandbox) -> None:
    shared.run_code("z = 1")
    with pytest.raises(TimeoutException):
        shared.run_code("import time\nz = 2\ntime.sleep(60)", timeout=0.5)

    begin = time.monotonic()
    assert shared.run_code("z").text == "2"
    assert time.monotonic() - begin < 5


def test_killed_while_it_runs() -> None:
    sandbox = Sandbox.create()
    begun = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(
            sandbox.run_code, "print('x', flush=True); import time; time.sleep(60)", on_stdout=lambda _: begun.set()
        )
        assert begun.wait(20)
        sandbox.kill()
        with pytest.raises(Exception, match="was killed"):
            run.result(20)


def test_a_kernel_that_dies_is_told_and_replaced(shared: Sandbox) -> None:
    done = shared.run_code("import os; os.kill(os.getpid(), 9)")

    assert done.error.name == "UnexpectedEndOfExecution"
    assert shared.run_code("1 + 1").text == "2"


async def test_all_of_it_asynchronously(async_sandbox: AsyncSandbox) -> None:
    told: list[str] = []

    async def note(message: object) -> None:
        told.append(str(message))

    done = await async_sandbox.run_code("print('hi'); 1", on_stdout=note, on_result=note)
    assert told == ["hi\n", "Result(1)"]
    assert done.text == "1"
    context = await async_sandbox.create_code_context(language="js")
    assert (await async_sandbox.run_code("1 + 1", context=context)).text == "2"
    assert context.id in [one.id for one in await async_sandbox.list_code_contexts()]
    await async_sandbox.restart_code_context(context)
    await async_sandbox.remove_code_context(context)
    both = await asyncio.gather(async_sandbox.run_code("'a'"), async_sandbox.run_code("'b'", language="js"))
    assert [one.text for one in both] == ["a", "b"]
    with pytest.raises(TimeoutException):
        await async_sandbox.run_code("import time; time.sleep(60)", timeout=0.3)
