"""Knowledge flows one way: the imports in src/cloche, read and compared with what each part may know."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cloche

SOURCE = Path(cloche.__file__).parent
MODULES = {
    ".".join(("cloche", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}
# Run inside the nursery, where nothing but the standard library and our own few modules are.
INSIDE = [
    name
    for name in MODULES
    if name.startswith(("cloche.agent", "cloche.wire", "cloche.walls.jail", "cloche.walls.sockets", "cloche.kernels"))
    or name == "cloche.walls.leash_messages"
    if name not in ("cloche.walls.jail.wall", "cloche.walls.jail.nursery_client", "cloche.walls.jail.start")
]
# Of the sandboxes' own environment, not of ours: used while a nursery warms up.
REHEARSED = ("numpy", "pandas", "matplotlib")
# The same, where a session's state lives.
IN_KERNELS = (
    *REHEARSED,
    "IPython",
    "matplotlib_inline",
    "traitlets",
    "tqdm",
    "plotly",
    "altair",
    "bokeh",
    "PIL",
    "polars",
    "pyarrow",
)


def imports(module: str) -> Iterator[str]:
    """What a module imports, wherever in it, but for types alone."""
    tree = ast.parse(MODULES[module].read_text())
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            assert node.module is not None
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def is_ours(name: str) -> bool:
    return within(name, "cloche")


def is_standard(name: str) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names


def of(package: str) -> list[str]:
    return [name for name in MODULES if within(name, package)]


def test_there_is_something_to_look_at() -> None:
    assert len(MODULES) > 30
    assert "cloche.engine.link" in set(imports("cloche.engine.sandbox"))


@pytest.mark.parametrize("module", of("cloche.agent"))
def test_the_agent_knows_the_standard_library_the_wire_and_itself(module: str) -> None:
    for name in imports(module):
        assert is_standard(name) or within(name, "cloche.agent", "cloche.wire")


@pytest.mark.parametrize("module", of("cloche.wire"))
def test_the_wire_knows_the_standard_library_alone(module: str) -> None:
    for name in imports(module):
        assert is_standard(name) or within(name, "cloche.wire")


@pytest.mark.parametrize("module", [*of("cloche.model"), "cloche.errors"])
def test_the_words_know_nothing_of_what_is_done_with_them(module: str) -> None:
    for name in imports(module):
        # A result can be asked for what a model, a person or a notebook should see of it.
        views = ("cloche.results.for_model", "cloche.results.summary", "cloche.results.for_notebook")
        assert is_standard(name) or within(name, "cloche.model", "cloche.errors", *views)


@pytest.mark.parametrize("module", of("cloche.results"))
def test_results_know_the_words_alone(module: str) -> None:
    for name in imports(module):
        assert is_standard(name) or within(name, "cloche.model", "cloche.errors", "cloche.results")


@pytest.mark.parametrize("module", of("cloche.kernels"))
def test_kernels_know_the_wire_and_what_is_in_the_sandbox(module: str) -> None:
    words = (
        "cloche.model.result",
        "cloche.agent.signals",
        "cloche.agent.libc",
        "cloche.agent.sealing",
        "cloche.agent.compute_threads",
        "cloche.agent.shelved_modules",
        "cloche.agent.own_packages",
        *(["cloche.agent.python"] if module == "cloche.kernels.fresh_python" else []),  # it does what a fork does
    )
    for name in imports(module):
        assert is_standard(name) or within(name, "cloche.kernels", "cloche.wire", *words, *IN_KERNELS)


@pytest.mark.parametrize("module", of("cloche.walls"))
def test_walls_know_neither_the_engine_nor_anything_above_it(module: str) -> None:
    above = ("cloche.engine", "cloche.blocking", "cloche.sandbox", "cloche.client", "cloche.service", "cloche.doors")
    for name in imports(module):
        assert not within(name, *above, "cloche.policy", "cloche.store", "cloche.doctor")


WALLS = sorted({path.parent.name for path in (SOURCE / "walls").glob("*/wall.py")})


@pytest.mark.parametrize("wall", WALLS)
def test_a_wall_does_not_know_the_others(wall: str) -> None:
    others = [f"cloche.walls.{other}" for other in WALLS if other != wall]
    for module in of(f"cloche.walls.{wall}"):
        for name in imports(module):
            assert not within(name, *others), module


# Programs that run in sandboxes.
SCRIPTS = ["cloche.languages.sql.runner", "cloche.languages.sql.query_results", "cloche.languages.sqlite.runner"]


@pytest.mark.parametrize("module", SCRIPTS)
def test_scripts_know_what_is_in_the_sandbox_alone(module: str) -> None:
    for name in imports(module):
        assert is_standard(name) or within(name, "duckdb", "tables", "query_results")


@pytest.mark.parametrize("module", [name for name in of("cloche.languages") if name not in SCRIPTS])
def test_languages_know_neither_engine_nor_walls(module: str) -> None:
    # Where this install keeps its files, not how they are built; and names that are nearly right.
    places = ("cloche.environment", "cloche.settings", "cloche.nearest")
    for name in imports(module):
        assert is_standard(name) or within(name, "cloche.languages", "cloche.errors", "cloche.model") or name in places


def test_the_modules_of_languages_import_each_other_in_no_circle() -> None:
    imported = {module: set(imports(module)) - {module} for module in of("cloche.languages")}
    while free := [module for module, names in imported.items() if not names & imported.keys()]:
        for module in free:
            del imported[module]
    assert not imported


@pytest.mark.parametrize("module", of("cloche.engine"))
def test_the_engine_knows_walls_by_their_interface(module: str) -> None:
    for name in imports(module):
        assert not within(name, "cloche.walls") or name in ("cloche.walls.wall", "cloche.walls.registry")
        assert not within(name, "cloche.blocking", "cloche.agent")
        # It suggests libraries by the environment's list of packages.
        assert not within(name, "cloche.environment") or module == "cloche.engine.missing_modules"


@pytest.mark.parametrize("module", of("cloche.engine"))
def test_the_engine_knows_nothing_of_the_client(module: str) -> None:
    for name in imports(module):
        assert not within(name, "cloche.client")


@pytest.mark.parametrize("module", of("cloche.egress"))
def test_the_egress_process_knows_policies_alone(module: str) -> None:
    libraries = ("h11", "cryptography")
    for name in imports(module):
        assert is_standard(name) or within(name, "cloche.egress", "cloche.model", "cloche.errors", *libraries)


@pytest.mark.parametrize("module", [name for name in MODULES if not within(name, "cloche.egress")])
def test_nobody_imports_the_egress_process(module: str) -> None:
    assert not any(within(name, "cloche.egress") for name in imports(module))


@pytest.mark.parametrize("module", of("cloche.client"))
def test_the_client_knows_nothing_of_the_engine(module: str) -> None:
    for name in imports(module):
        assert not within(name, "cloche.engine", "cloche.walls", "cloche.blocking")


@pytest.mark.parametrize("module", of("cloche.sandbox"))
def test_the_front_knows_backends_by_their_interface(module: str) -> None:
    for name in imports(module):
        is_choosing = module == "cloche.sandbox.places"
        assert not within(name, "cloche.engine", "cloche.client") or is_choosing
        assert not within(name, "cloche.walls", "cloche.blocking", "cloche.agent", "cloche.service", "cloche.doors")


@pytest.mark.parametrize("module", of("cloche.store"))
def test_the_store_knows_records_alone(module: str) -> None:
    for name in imports(module):
        assert not is_ours(name) or within(
            name, "cloche.store", "cloche.errors", "cloche.model.records", "cloche.json_text"
        )


@pytest.mark.parametrize("module", of("cloche.policy"))
def test_the_policy_knows_what_it_decides_about_and_nothing_that_acts(module: str) -> None:
    known = (
        "cloche.policy",
        "cloche.model",
        "cloche.errors",
        "cloche.configuration",
        "cloche.settings",
        "cloche.nearest",
        "cloche.packages.policy",
    )
    # Which walls there are, and which of them an operator offers; how a path is resolved for good.
    tables = ("cloche.walls.registry", "cloche.beneath")
    for name in imports(module):
        assert is_standard(name) or within(name, *known) or name in tables


@pytest.mark.parametrize("module", of("cloche.packages"))
def test_packages_know_the_words_and_the_front_for_their_own_sandboxes(module: str) -> None:
    known = (
        *("cloche.packages", "cloche.model", "cloche.errors", "cloche.io", "cloche.environment", "cloche.settings"),
        # Their own sandboxes; in a thread, hence blocking.
        *(
            "cloche.nearest",
            "cloche.sandbox",
            "cloche.blocking.sandbox",
            "cloche.blocking.engine",
            "cloche.wire.layers",
        ),
    )
    for name in imports(module):
        assert is_standard(name) or within(name, *known) or name == "cloche"  # its version


@pytest.mark.parametrize("module", of("cloche.service"))
def test_the_service_knows_nothing_of_http(module: str) -> None:
    for name in imports(module):
        assert not within(name, "cloche.doors", "cloche.client", "cloche.blocking", "cloche.wire", "cloche.agent")
        assert not within(name, "cloche.walls") or name == "cloche.walls.registry"
        assert not within(name, "fastapi", "starlette", "uvicorn", "httpx2", "mcp", "websockets")


@pytest.mark.parametrize("module", of("cloche.doors"))
def test_doors_know_the_service_and_not_walls(module: str) -> None:
    for name in imports(module):
        assert not within(name, "cloche.engine", "cloche.walls", "cloche.store", "cloche.wire", "cloche.agent")
        assert not within(name, "cloche.blocking", "cloche.kernels")


@pytest.mark.parametrize("module", of("cloche.client"))
def test_the_client_knows_nothing_of_the_server(module: str) -> None:
    for name in imports(module):
        assert not within(name, "cloche.doors", "cloche.service", "cloche.store", "cloche.walls", "cloche.agent")


@pytest.mark.parametrize("module", of("cloche.engine"))
def test_the_engine_knows_nothing_of_the_server(module: str) -> None:
    for name in imports(module):
        assert not within(name, "cloche.doors", "cloche.service", "cloche.store")


@pytest.mark.parametrize("module", [name for name in MODULES if not within(name, "cloche.cli")])
def test_nobody_below_the_command_line_knows_it(module: str) -> None:
    for name in imports(module):
        assert not within(name, "cloche.cli")


USE_PACKAGES = (
    *("cloche.cli", "cloche.doctor", "cloche.kernels", "cloche.store", "cloche.doors", "cloche.client"),
    "cloche.walls.e2b",  # E2B's client, when it is asked for
    "cloche.egress",  # h11, and for secrets cryptography: a process of its own, which only a policy needs
    "cloche.json_text",  # the server's encoder
    "cloche.service.encryption",  # cryptography, for stored secrets
)


@pytest.mark.parametrize(
    "module",
    [
        name
        for name in MODULES
        if not within(name, *USE_PACKAGES) and name not in SCRIPTS and not within(name, "cloche.blocking.client")
    ],
)
def test_only_the_outermost_parts_need_other_peoples_packages(module: str) -> None:
    for name in imports(module):
        assert is_standard(name) or is_ours(name) or within(name, "fontTools", *REHEARSED)


@pytest.mark.parametrize("module", INSIDE)
def test_what_runs_in_the_nursery_needs_nothing_of_the_engines_side(module: str) -> None:
    for name in imports(module):
        ours = (*INSIDE, "cloche", "cloche.walls", "cloche.model.result")
        assert is_standard(name) or name in ours or within(name, *IN_KERNELS)
