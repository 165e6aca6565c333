"""The fields of a result, and every form in which a result leaves: a new field cannot be forgotten in one of them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest
from pydantic import BaseModel

from cloche.cli.run import _as_json
from cloche.client import shapes
from cloche.doors import websocket
from cloche.doors.http import answers
from cloche.doors.http.containers import ExecAnswer
from cloche.doors.http.network_fields import NetworkAttemptAnswer
from cloche.doors.mcp.execution import CodeAnswer
from cloche.json_text import to_json
from cloche.model import files, history, result
from cloche.model.network_attempt import NetworkAttempt
from cloche.model.plain import Plain
from cloche.model.result import (
    JSON_FIELDS,
    PARTS,
    Artifact,
    Diagnostic,
    Display,
    Error,
    Log,
    Raised,
    Result,
    StackFrame,
    ToolCall,
)
from cloche.results.fields import plain, result_fields

RAISED = Raised("ValueError", "no", "cause", (StackFrame("/sandbox/a.py", 3, 1, "f", "1 / 0", 2, False),), 7)
WHOLE = Result(
    stdout="out\n",
    stderr="err\ufffd",
    exit_code=3,
    duration=1.5,
    cpu_time=0.25,
    memory_peak=1 << 20,
    error=Error("runtime", "It failed.", "Mend it.", "ValueError", "trace", "\x1b[1mtrace", (RAISED,)),
    truncated=True,
    stdout_bytes=b"out\n",
    stderr_bytes=b"err\xff",
    wall="jail",
    results=(Display({"text/plain": "1"}, {"a": 1}, True, "id"),),
    logs=(Log("stdout", "out\n", 2.5),),
    artifacts=(Artifact("/sandbox/output/a.txt", 3, "text/plain"),),
    execution_count=4,
    tool_calls=(ToolCall("add", [1], {"b": 2}, 3, None, 0.5),),
    restarted=True,
    diagnostics=(Diagnostic("main.c", 1, 2, "no", "warning", "W1"),),
    build_time=0.75,
    network=(NetworkAttempt("a.example.org", 443, "allowed", "*.example.org", "it ended", 1, 2, 0.5, 9.0, 1),),
)


def test_the_example_has_another_value_than_the_default_in_every_field():
    assert [name for name, default in Result._defaults.items() if getattr(WHOLE, name) == default] == []


def test_every_field_that_holds_objects_says_which():
    hints = get_type_hints(Result, localns={"Any": Any})
    found = {name: hints[name].__args__[0] for name in Result._fields if str(hints[name]).startswith("tuple")}
    assert found == PARTS


def test_a_client_gets_what_the_server_had():
    assert shapes.result(json.loads(to_json(result_fields(WHOLE)))) == WHOLE


def test_json_on_the_command_line_has_every_field():
    told = json.loads(_as_json(WHOLE))
    assert tuple(told) == JSON_FIELDS
    assert {name: told[name] for name in PARTS} == {name: plain(getattr(WHOLE, name)) for name in PARTS}


# What the HTTP interface describes

ADDED = {"run_id", "context", "text", "stdout_base64", "stderr_base64"}  # to a result, by the server
PAIRS: list[tuple[type[Plain], type[BaseModel], set[str]]] = [
    (result.Display, answers.DisplayAnswer, set()),
    (result.Log, answers.LogAnswer, set()),
    (result.Artifact, answers.ArtifactAnswer, set()),
    (result.Error, answers.ErrorAnswer, set()),
    (result.Raised, answers.RaisedAnswer, set()),
    (result.StackFrame, answers.StackFrameAnswer, set()),
    (result.Diagnostic, answers.DiagnosticAnswer, set()),
    (result.Usage, answers.UsageAnswer, {"network"}),
    (NetworkAttempt, NetworkAttemptAnswer, set()),
    (history.Moment, answers.MomentAnswer, set()),
    (history.Restored, answers.RestoredAnswer, {"note"}),
    (history.Variable, answers.VariableAnswer, set()),
    (history.VariableList, answers.VariableListAnswer, set()),
    (history.FileChanges, answers.FileChangesAnswer, set()),
    (history.VariableChanges, answers.VariableChangesAnswer, set()),
    (history.Candidate, answers.CandidateAnswer, set()),
    (history.Best, answers.BestAnswer, set()),
    (files.Entry, answers.EntryAnswer, set()),
]


@pytest.mark.parametrize(("kind", "answer", "added"), PAIRS, ids=lambda each: getattr(each, "__name__", None))
def test_the_description_has_every_field(kind: type[Plain], answer: type[BaseModel], added: set[str]):
    assert set(answer.model_fields) == set(kind._fields) | added


def test_the_description_has_every_field_of_a_result_with_its_type():
    assert set(answers.ResultAnswer.model_fields) == set(JSON_FIELDS) | ADDED
    told = json.loads(to_json(result_fields(WHOLE, "run_1", "python")))
    described = answers.ResultAnswer.model_validate(told, strict=True)
    assert described.model_dump(exclude_none=True) == {name: value for name, value in told.items() if value is not None}


# Doors that tell less say what they leave out

LEFT_OUT = {
    ExecAnswer: {
        *("cpu_time", "memory_peak", "truncated", "wall", "results", "logs", "artifacts", "execution_count"),
        *("tool_calls", "restarted", "diagnostics", "build_time", "network"),
    },
    CodeAnswer: {
        *("cpu_time", "memory_peak", "wall", "logs", "execution_count", "tool_calls", "diagnostics", "build_time"),
        "network",  # `refused_hosts` has the refused ones
    },
}


@pytest.mark.parametrize("answer", LEFT_OUT, ids=lambda each: each.__name__)
def test_what_a_door_leaves_out_is_left_out_on_purpose(answer: Any):
    assert set(JSON_FIELDS) - set(answer.model_fields) == LEFT_OUT[answer]


def test_the_websocket_leaves_out_what_it_leaves_out_on_purpose():
    run: Any = SimpleNamespace(id="run_1", record=SimpleNamespace(sandbox="sbx_1", context="python"))
    told = websocket._result(run, WHOLE, {})
    assert set(JSON_FIELDS) - {*told, "results"} == {  # the displays are added as texts that are encoded already
        *("stdout", "stderr"),  # they are in `output` and `errors`, as a person should see them
        *("cpu_time", "wall", "logs", "execution_count", "tool_calls", "diagnostics", "build_time"),
    }
