"""The table of error kinds, and what the doors make of it."""

from __future__ import annotations

import pytest

from cloche.doors.e2b.results import error
from cloche.doors.plain_text import errors_text
from cloche.model.kinds import KINDS, kind_of
from cloche.model.result import Error, Result


@pytest.mark.parametrize("name", KINDS)
def test_a_row_is_complete(name: str):
    row = KINDS[name]
    assert row.name == name
    assert row.meaning
    assert row.hint
    assert row.e2b
    assert not row.meaning.endswith(".")
    assert not row.hint.endswith(".")


def test_a_program_that_says_itself_what_happened_is_left_to_say_it():
    assert {name for name, row in KINDS.items() if not row.is_silent} == {"syntax", "runtime", "exit"}


@pytest.mark.parametrize("name", KINDS)
def test_the_websocket_says_what_the_program_does_not(name: str):
    result = Result("", "its own words\n", 1, 0.0, 0.0, 0, Error(name, "Our words.", "A hint."))
    assert ("Our words." in errors_text(result)) == KINDS[name].is_silent
    assert "A hint." in errors_text(result)


def test_an_exit_without_a_word_is_told():
    assert "It ended with 3." in errors_text(Result("", "", 3, 0.0, 0.0, 0, Error("exit", "It ended with 3.")))


@pytest.mark.parametrize("name", KINDS)
def test_e2bs_clients_get_the_name_of_the_table(name: str):
    assert error(Error(name, "Our words."))["name"] == KINDS[name].e2b


def test_a_kind_of_a_newer_server_is_told():
    assert kind_of("eaten").is_silent
    assert error(Error("eaten", "By a bear."))["name"] == "UnexpectedEndOfExecution"
