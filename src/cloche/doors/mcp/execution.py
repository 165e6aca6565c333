"""The `code_execution` tool: runs code, reports its progress, and formats the outcome for a model."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from time import monotonic
from typing import Annotated, Any

import anyio
import mcp_types as types
from pydantic import Field

from cloche import environment, languages, settings
from cloche.doors.mcp.conversation import Progress, Visit
from cloche.doors.mcp.file_uris import uri_of
from cloche.doors.mcp.packages import Installed, install
from cloche.doors.mcp.sessions import EnvironmentName, Hosts, Packages, Session
from cloche.doors.mcp.tool import Answer, Tool, ToolAnswer, ToolArguments, text_block
from cloche.doors.pictures import note_about, shown_pictures, work_for_model
from cloche.errors import InvalidRun
from cloche.io.tasks import off_loop
from cloche.languages.availability import installed
from cloche.languages.language import Language
from cloche.model.kinds import KINDS
from cloche.model.result import Result
from cloche.results.cleaning import clean
from cloche.results.fields import result_in_words_of
from cloche.service.events import OutputPiece
from cloche.service.run import Run

BUDGET = 4000  # tokens of the text for the model
MAX_TEXT = 20_000  # characters of each stream in the structured answer; some clients show that to models, too
MAX_IMAGES = 8
MAX_IMAGE = 4 << 20  # characters of base64 of all images; models take no larger ones
_LOOK_S = 0.25  # between two reports of output, at least
_TICK_S = 5.0  # between two reports that the code still runs, while it prints nothing
_MAX_MESSAGE = 500
_LIBRARIES = {  # by the name of their package; the description names those that are installed
    "pandas": "pandas",
    "numpy": "NumPy",
    "scipy": "SciPy",
    "scikit-learn": "scikit-learn",
    "matplotlib": "Matplotlib",
    "openpyxl": "openpyxl",
}


class CodeArguments(ToolArguments):
    code: Annotated[str, Field(min_length=1)]
    """The code. In Python, the value of the last expression is returned, as in a notebook."""
    language: Annotated[str, Field(max_length=100)] = "python"
    session: Session = None
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds after which the code is interrupted (default 60). Variables survive the interruption."""
    packages: Packages | None = None
    """Packages to install in this session first, such as 'polars' or 'httpx>=0.27'; for JavaScript 'lodash@4'. They
    stay installed, and need no network access. Leave out those that the session has."""
    environment: EnvironmentName | None = None
    """Only when the call starts a session: the environment to start it from, which has packages and files already.
    environment_list shows what there is."""
    network: Hosts = None
    """Hosts to allow in this session from now on, such as 'api.example.org' or '*.example.org:8443'; or 'packages' (the
    indexes of pip and npm), or 'public'. Allow only what the task needs."""


class CodeProblem(Answer):
    """Why the code did not succeed."""

    kind: Annotated[str, Field(description=f"One of {', '.join(KINDS)}.")]
    message: str
    hint: str
    """A suggestion for the next step."""
    name: str | None = None
    """The exception's class."""


class CodeArtifact(Answer):
    """A file that the code left in /sandbox/output."""

    path: str
    size: int
    mime: str
    uri: str
    """The URI of the file as a resource."""


class RefusedHost(Answer):
    """A host that the code tried to reach, and was not allowed to."""

    host: str
    port: int
    reason: str
    allow: str | None = None
    """To allow it, call again with this text in `network`, if the user agrees.  Without it, no rule can."""


class CodeAnswer(ToolAnswer):
    """The outcome of an execution."""

    session: str
    """The session in which the code ran; pass it as `session` to go on with its variables and files."""
    run_id: str
    stdout: str
    stderr: str
    exit_code: int
    error: CodeProblem | None = None
    """Only when the code failed."""
    results: list[str]
    """The displayed values as text; the value of the last expression comes last."""
    images: int
    """The number of pictures in this answer."""
    artifacts: list[CodeArtifact]
    packages: Installed | None = None
    """Only when the call named packages."""
    refused_hosts: list[RefusedHost] | None = None
    """Only when the network policy has refused a connection."""
    duration: float
    """Seconds."""
    truncated: bool
    """Whether some of the output was left out."""
    restarted: bool
    """Whether the interpreter was restarted after this run: variables are lost, files remain."""


async def execute(visit: Visit, arguments: CodeArguments) -> types.CallToolResult:
    # Before a session is created for an invalid request.
    visit.service.sessions.check_timeout(arguments.timeout)
    language = _language(arguments.language)
    session = await visit.sandbox(arguments.session, makes=True, environment=arguments.environment)
    if arguments.network:
        await _allow(visit, session, arguments.network)
    installed = await install(visit, session, arguments.packages, language) if arguments.packages else None
    run = await visit.service.sessions.run(
        visit.caller, session, arguments.code, language=language, timeout=arguments.timeout
    )
    try:
        if visit.progress is not None:
            await _follow(run, visit.progress)
        result = await run.outcome()
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await run.cancel()  # no client waits for the run any more
        raise
    return await off_loop(work_for_model(result), lambda: _answer(result, run.id, session, installed))


async def _allow(visit: Visit, session: str, rules: Sequence[str]) -> None:
    """Let a session reach more."""
    networks = visit.service.networks
    before = (await networks.policy(visit.caller, session)).policy.requested
    wanted = before.replace(allow=(*before.allow, *rules))
    if wanted != before:
        await networks.replace(visit.caller, session, wanted)


async def _follow(run: Run, progress: Progress) -> None:
    """Report the output as progress until the run ends."""
    began = reported = monotonic()
    printed = ""
    async with aclosing(run.log.batches(patience_s=_LOOK_S)) as batches:  # type: ignore[type-var]
        async for batch in batches:
            pieces = (entry.event.whole for entry in batch if isinstance(entry.event, OutputPiece))
            printed += "".join(piece.decode(errors="replace") for piece in pieces)
            printed = printed[-4 * _MAX_MESSAGE :]
            now = monotonic()
            if now - reported >= (_LOOK_S if printed else _TICK_S):
                await progress(now - began, _last_lines(printed) or f"Running for {now - began:.0f} s.")
                reported, printed = now, ""
    if printed:
        await progress(monotonic() - began, _last_lines(printed))


def _last_lines(printed: str) -> str:
    text = clean(printed[-4 * _MAX_MESSAGE :]).strip()
    return text if len(text) <= _MAX_MESSAGE else f"…{text[-_MAX_MESSAGE:]}"


def _answer(result: Result, run_id: str, session: str, installed: Installed | None = None) -> types.CallToolResult:
    result = result_in_words_of("mcp", result)
    shown, left_out = shown_pictures(result, MAX_IMAGES, MAX_IMAGE)
    pictures = [types.ImageContent(data=one.data, mime_type=one.mime) for one in shown]
    text = result.for_model(BUDGET) + note_about(left_out)
    if installed is not None:
        text += f"\n[packages] {installed.text}"
    stdout, stderr = _middle_out(clean(result.stdout)), _middle_out(clean(result.stderr))
    error = result.error
    answer = CodeAnswer(
        session=session,
        run_id=run_id,
        stdout=stdout,
        stderr=stderr,
        exit_code=result.exit_code,
        error=None
        if error is None
        else CodeProblem(
            kind=error.kind,
            message=_middle_out(clean(error.message)),
            hint=error.hint,
            name=None if error.name is None else clean(error.name),
        ),
        results=[_middle_out(clean(str(shown.text))) for shown in result.results if shown.text is not None][-50:],
        images=len(pictures),
        artifacts=[
            CodeArtifact(path=clean(one.path), size=one.size, mime=clean(one.mime), uri=uri_of(session, one.path))
            for one in result.artifacts[:200]
        ],
        packages=installed,
        refused_hosts=_refused(result) or None,
        duration=result.duration,
        truncated=result.truncated or len(stdout) > MAX_TEXT or len(stderr) > MAX_TEXT,
        restarted=result.restarted,
    )
    return types.CallToolResult(
        content=[text_block(text), *pictures],
        structured_content=answer.as_json(),
        is_error=error is not None,
    )


def _refused(result: Result) -> list[RefusedHost]:
    """The refused hosts, each once."""
    found = {(one.host, one.port): one for one in result.network if one.verdict == "refused"}
    return [
        RefusedHost(host=clean(host), port=port, reason=clean(one.reason), allow=clean(one.allow) or None)
        for (host, port), one in list(found.items())[:50]
    ]


def _middle_out(text: str) -> str:
    """Shorten a long text to its beginning and its end."""
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


_DESCRIPTION = """Run code in an isolated Linux sandbox and get its output, the value of its last expression, and \
charts as images.

State persists from call to call: variables, imports, functions and files of earlier calls remain available, as in a \
notebook. The first call makes an empty session and returns its id as `session`. Work in small steps and look at each \
result.

- Python has {libraries} and more. End with an expression to see its value. A Matplotlib figure is returned as an \
image; plt.show() is enough. !command runs a shell command.
- `language` chooses another language: {languages}. {sessions} keep their variables from call to call; in the others \
each call is a program of its own. All share the files.
- The working directory is /sandbox. Save files for the user in /sandbox/output: they are listed in the result and \
can be read as resources or with files_read.
- Other packages: name them in `packages`, or run !pip install NAME; both work without a network. packages_search \
finds names and versions. The server's policy decides which packages are allowed.
- There is no network until `network` allows something: name the hosts that the task needs. A connection that is \
refused is reported, with the host to allow. The server may allow less.
- Code that fails returns the error, the line and a hint; correct the code and call again. Code that takes too long \
is interrupted and keeps its variables: raise `timeout` for long work. Code that uses too much memory restarts the \
interpreter: variables are lost, files remain."""


class CodeTool(Tool):
    """The tool that runs code; its description names the languages that are installed."""

    def described(self) -> types.Tool:
        found, packages = offered(), _manifest().get("packages", ())
        libraries = [title for name, title in _LIBRARIES.items() if name in packages] or ["its standard library"]
        others = [language.title for language in found if language.name != "python"]
        keeping = [language.title for language in found if language.kernel is not None]
        described = super().described()
        described.description = self.description.format(
            libraries=", ".join(libraries), languages=_joined(others), sessions=_joined(keeping)
        )
        described.input_schema["properties"]["language"] |= {
            "enum": [language.name for language in found],
            "description": f"The language of the code. {_joined(keeping)} keep their variables.",
        }
        return described


def offered() -> list[Language]:
    """Return the languages that are installed; one that is installed later is accepted, too."""
    return installed(_manifest())


def _manifest() -> dict[str, Any]:
    return environment.manifest(settings.load().environment or environment.location())


def _language(name: str) -> str:
    try:
        return languages.find(name).name
    except InvalidRun as problem:
        names = ", ".join(language.name for language in offered())
        raise InvalidRun(problem.message, hint=f"Installed languages: {names}.") from None


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


TOOLS = (
    CodeTool(
        "code_execution", "Run code", _DESCRIPTION, CodeArguments, CodeAnswer, execute, destroys=True, connects=True
    ),
)
