"""The table of forked kernels agrees with the languages and with the modules."""

from __future__ import annotations

from cloche import kernels, languages


def test_every_kernel_in_the_table_has_a_module_with_main() -> None:
    assert set(kernels.entry_points()) == set(kernels.FORKED)


def test_languages_name_kernels_of_the_table_and_every_row_is_used() -> None:
    wanted = [languages.find(name).kernel or {} for name in languages.names()]
    named = {kernel["fork"] for kernel in wanted if "fork" in kernel}
    assert named == set(kernels.FORKED)
