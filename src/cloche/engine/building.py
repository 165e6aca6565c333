"""The steps from source to process: the messages of compilers and checkers, their time, and the step that fails."""

from __future__ import annotations

from cloche.engine.judge import Facts, Traceback, is_out_of_memory, judge, seconds
from cloche.languages.language import WITH_DEPENDENCIES
from cloche.model.limits import Limits
from cloche.model.result import Diagnostic, Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.languages.language import Language, Plan, Project

CHECK_S = 20.0  # time for a checker to finish after the program has ended
MAX_DIAGNOSTICS = 500
_MAX_MESSAGE = 4000
_NOT_PROVIDED = 69  # see walls/jail/package_programs/builds.py


class ProgramBuild:
    """The build steps before a program, and the checker beside it."""

    patience = CHECK_S

    def __init__(self, language: Language, project: Project, plan: Plan) -> None:
        self.language, self._project, self.plan = language, project, plan
        self._left = len(plan.before)
        self.diagnostics: list[Diagnostic] = []
        self.output = ""  # output of the step that failed, or of the last step
        self.cpu, self.peak = 0.0, 0

    @property
    def under_way(self) -> bool:
        """Whether a step remains before the program."""
        return self._left > 0

    @property
    def step(self) -> str:
        """The name of the current step."""
        return self.plan.before[-self._left].name if self._left else ""

    def request(self) -> dict[str, Any]:
        """Return the steps, as fields of the request to the agent."""
        fields: dict[str, Any] = {}
        if self.plan.before:
            fields["before"] = [_step(step) for step in self.plan.before]
        if self.plan.beside is not None:
            fields["beside"] = _step(self.plan.beside)
        return fields

    def take(self, stage: dict[str, Any]) -> None:
        """Note that a step has ended."""
        output, code = str(stage.get("output", "")), int(stage.get("code", 0))
        self.cpu += float(stage.get("cpu", 0.0))
        self.peak = max(self.peak, int(stage.get("peak", 0)))
        if self.language.diagnose is not None:
            found = self.language.diagnose(output, self._project)
            self.diagnostics += found[: MAX_DIAGNOSTICS - len(self.diagnostics)]
        if self._left and str(stage.get("stage")) == self.step:
            self.output = output
            if code == 0:
                self._left -= 1

    def skip_check(self) -> None:
        """Note that the checker did not finish."""
        self.diagnostics.append(Diagnostic("", 0, 0, f"The check was stopped after {seconds(CHECK_S)}.", "warning"))

    def judge(self, facts: Facts, limits: Limits) -> Error | None:
        """Return the error of a step before the program, if one failed."""
        error = judge(self._for_want_of_memory(facts), limits.replace(timeout_s=limits.build_timeout_s))
        if error is None:
            return None
        if error.kind == "timeout":
            return Error(
                "timeout",
                f"The {self.step} step was stopped after {seconds(limits.build_timeout_s or 0)}.",
                "Build less at once, or allow more time with build_timeout=.",
            )
        if error.kind == "exit" and facts.exit_code == _NOT_PROVIDED and self._asks_for_dependencies():
            message, _, hint = self.output.strip().rpartition("error: ")[2].partition("\nhelp: ")
            return Error("unavailable", message[:_MAX_MESSAGE], hint[:_MAX_MESSAGE], traceback=self.output)
        if error.kind not in ("exit", "killed") or (error.kind == "killed" and not self.diagnostics):
            return error
        first = next((each for each in self.diagnostics if each.severity == "error"), None)
        message = first.message if first is not None else _last_line(self.output) or f"The {self.step} step failed."
        where = f" ({first.file}, line {first.line})" if first is not None and first.line else ""
        return Error(
            "syntax",
            f"{message[:_MAX_MESSAGE]}{where}",
            "Correct what the compiler points at and run it again; `diagnostics` has all of it.",
            traceback=self.output,
        )

    def _asks_for_dependencies(self) -> bool:
        return self.plan.before[-self._left].argv[: len(WITH_DEPENDENCIES)] == WITH_DEPENDENCIES

    def _for_want_of_memory(self, facts: Facts) -> Facts:
        """Add a compiler's own message about missing memory: some run in a virtual machine with a limit of its own."""
        failure = self.language.explain(self.output) if self.language.explain is not None else None
        if failure is None:
            return facts
        trace = Traceback(failure.name, failure.message[:_MAX_MESSAGE], failure.text)
        return facts.replace(explained=trace) if is_out_of_memory(trace) else facts

    def explain(self, facts: Facts) -> Facts:
        """Add the explanation of a failure that the program's own standard error gives."""
        if facts.exit_code == 0 or self.language.explain is None:
            return facts
        failure = self.language.explain(facts.stderr_tail)
        if failure is None:
            return facts
        if failure.kind == "syntax" and self.language.diagnose is not None and not self.diagnostics:
            self.diagnostics += self.language.diagnose(failure.text, self._project)[:MAX_DIAGNOSTICS]
        return facts.replace(
            explained=Traceback(failure.name, failure.message[:_MAX_MESSAGE], failure.text),
            is_syntax=failure.kind == "syntax",
        )


def _step(step: Any) -> dict[str, Any]:
    return {"name": step.name, "argv": list(step.argv), "cwd": step.cwd, "env": dict(step.env)}


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
