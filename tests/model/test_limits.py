"""The table of limits, and everything that is made from it or written out beside it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import cloche
from cloche.client.shapes import limits, limits_fields
from cloche.configuration import FIELDS, Configuration
from cloche.doors.http.answers import LimitsAnswer
from cloche.doors.http.bodies import RunBody, SandboxBody
from cloche.model.limits import LIMITS, Limit, Limits

OTHER: dict[str, Any] = {"seconds": 7.5, "bytes": 32 << 20, "cores": 1.5, "processes": 7}  # within all bounds
each_limit = pytest.mark.parametrize("row", LIMITS, ids=lambda row: row.name)


def other() -> Limits:
    """Limits of which none has its default."""
    found = Limits.of(**{row.name: OTHER[row.unit] for row in LIMITS})
    assert all(getattr(found, row.field) != getattr(Limits(), row.field) for row in LIMITS)
    return found


def test_every_row_has_its_field_and_every_field_its_row():
    assert tuple(row.field for row in LIMITS) == Limits._fields


@each_limit
def test_a_row_agrees_with_itself(row: Limit):
    default = row.read(row.default)
    assert default == getattr(Limits(), row.field)
    assert row.low <= default <= row.allowed <= row.high
    assert row.title
    assert row.help
    assert not row.help.endswith(".")


@pytest.mark.parametrize(
    "called", [Limits.of, cloche.run, cloche.async_run, cloche.Sandbox.__init__, cloche.AsyncSandbox.__init__]
)
def test_public_signatures_have_every_limit_with_its_default(called: Any):
    parameters = inspect.signature(called).parameters
    assert {row.name: repr(parameters[row.name].default) for row in LIMITS} == {
        row.name: repr(row.default) for row in LIMITS
    }


def test_the_arguments_of_limits_are_in_the_order_of_the_table():
    assert list(inspect.signature(Limits.of).parameters) == [row.name for row in LIMITS]


def test_the_usual_limits_are_not_made_again():
    assert Limits.of() is Limits.of(30, "512M") is Limits.of(**{row.name: row.default for row in LIMITS})
    assert Limits.of(cpu=2) is not Limits.of()
    with pytest.raises(cloche.InvalidRun):
        Limits.of(cpu=True)  # equal to 1.0, and still no number of cores


def test_limits_go_to_a_server_and_come_back():
    assert limits(limits_fields(other())) == other()
    assert Limits.of(**other().by_name()) == other()


def test_an_old_record_has_the_defaults_of_newer_limits():
    fields = other().as_dict()
    del fields["build_timeout_s"]
    assert Limits.from_fields(fields) == other().replace(build_timeout_s=Limits().build_timeout_s)


@pytest.mark.parametrize("body", [RunBody, SandboxBody])
def test_requests_take_every_limit(body: Any):
    named = other().by_name()
    needed = {"code": ""} if body is RunBody else {}
    assert body(**named, **needed).limits() == named
    assert body(**needed).limits() == {}  # the defaults are the operator's to lower
    assert {row.name: body.model_fields[row.name].default for row in LIMITS} == {
        row.name: row.default for row in LIMITS
    }


def test_answers_tell_every_limit():
    assert LimitsAnswer(**other().by_name()).model_dump() == other().by_name()


@each_limit
def test_every_limit_has_a_bound_of_the_operators(row: Limit):
    about = FIELDS[row.setting].metadata
    assert getattr(Configuration(), row.setting) == row.allowed
    assert (about["low"], about["high"]) == (row.low, row.high)
