"""What `cloche` says it offers is what it offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import cloche


@pytest.mark.parametrize("name", cloche.__all__)
def test_every_exported_name_resolves(name: str) -> None:
    assert getattr(cloche, name) is not None


def test_every_lazy_name_is_exported() -> None:
    assert set(cloche._WHERE) <= set(cloche.__all__)


def test_exports_are_sorted_and_unique() -> None:
    assert cloche.__all__ == sorted(set(cloche.__all__))


def test_the_contract_is_there() -> None:
    for name in ("run", "Sandbox", "AsyncSandbox", "Result", "Error", "Limits", "ClocheError", "InvalidRun", "Gone"):
        assert name in cloche.__all__


def test_star_import_works() -> None:
    names: dict[str, object] = {}
    exec("from cloche import *", names)
    assert set(cloche.__all__) <= set(names)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = cloche.no_such_name


def test_importing_cloche_loads_hardly_anything() -> None:
    code = "import sys; before = set(sys.modules); import cloche; print(*(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) <= {"cloche", "__future__"}


def test_every_error_is_a_cloche_error_with_a_code_of_its_own() -> None:
    errors = [
        value
        for name in cloche.__all__
        if isinstance(value := getattr(cloche, name), type) and issubclass(value, Exception)
    ]
    assert len(errors) >= 8
    codes = [error.code for error in errors if issubclass(error, cloche.ClocheError)]
    assert len(set(codes)) == len(codes) == len(errors)
