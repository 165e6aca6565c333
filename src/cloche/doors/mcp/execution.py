"""The `code_execution` tool: runs code, reports its progress, and formats the outcome for a model."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from contextlib import aclosing
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
import mcp_types as types
from pydantic import Field

from cloche import languages
from cloche.doors.mcp.conversation import Progress, Visit
from cloche.doors.mcp.file_uris import uri_of
from cloche.doors.mcp.tool import Answer, Tool, ToolArguments, text_block
from cloche.doors.shapes import images
from cloche.io.tasks import LARGE, off_loop
from cloche.model.kinds import KINDS
from cloche.model.result import Result
from cloche.results.cleaning import clean
from cloche.service.event_log import characters_of
from cloche.service.events import OutputPiece
from cloche.service.run import Run

BUDGET = 4000  # tokens of the text for the model
MAX_TEXT = 20_000  # characters of each stream in the structured answer; some clients show that to models, too
MAX_IMAGES = 8
MAX_IMAGE = 4 << 20  # characters of base64 of all images; models take no larger ones
_MAGIC = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
_LOOK_S = 0.25  # between two reports of output, at least
_TICK_S = 5.0  # between two reports that the code still runs, while it prints nothing
_MAX_MESSAGE = 500

if TYPE_CHECKING:
    Language = str
else:
    Language = Literal[tuple(languages.names())]  # the tool's schema lists them


class CodeArguments(ToolArguments):
    code: Annotated[str, Field(min_length=1)]
    """The code. In Python, the value of the last expression is returned, as in a notebook."""
    language: Language = "python"
    """Python, JavaScript, TypeScript, Bash, R and Java each keep their own variables; they share the files."""
    session: str | None = None
    """The id of a session, from an earlier result, session_create or session_list. Leave it out for this conversation's
    own session; without a conversation, a new session is made, and a note gives the id to pass in later calls."""
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds after which the code is interrupted (default 60). Variables survive the interruption."""


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


class CodeAnswer(Answer):
    """The outcome of an execution."""

    session: str
    """The session in which the code ran."""
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
    duration: float
    """Seconds."""
    truncated: bool
    """Whether some of the output was left out."""
    restarted: bool
    """Whether the interpreter was restarted after this run: variables are lost, files remain."""


async def execute(visit: Visit, arguments: CodeArguments) -> types.CallToolResult:
    visit.service.sessions.check_timeout(arguments.timeout)  # before a session is created for an invalid request
    session, note = await visit.sandbox(arguments.session, makes=True)
    run = await visit.service.sessions.run(
        visit.caller, session, arguments.code, language=arguments.language, timeout=arguments.timeout
    )
    try:
        if visit.progress is not None:
            await _follow(run, visit.progress)
        result = await run.outcome()
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await run.cancel()  # no client waits for the run any more
        raise
    return await off_loop(characters_of(result, LARGE), lambda: _answer(result, run.id, session, note))


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


def _answer(result: Result, run_id: str, session: str, note: str) -> types.CallToolResult:
    pictures, left_out = _pictures(result)
    text = result.for_model(BUDGET)
    if left_out:
        text += f"\n[note] {left_out} pictures are not shown: too many, too large, or not what they claim to be."
    if note:
        text += f"\n[note] {note}"
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
        duration=result.duration,
        truncated=result.truncated or len(stdout) > MAX_TEXT or len(stderr) > MAX_TEXT,
        restarted=result.restarted,
    )
    return types.CallToolResult(
        content=[text_block(text), *pictures],
        structured_content=answer.as_json(),
        is_error=error is not None,
    )


def _pictures(result: Result) -> tuple[list[types.ImageContent], int]:
    """Return the valid pictures and the number of others: an invalid picture would end the model's conversation."""
    found = images(result)
    good: list[dict[str, str]] = []
    room = MAX_IMAGE
    for picture in found:
        if len(good) < MAX_IMAGES and len(picture["data"]) <= room and _is_picture(picture):
            room -= len(picture["data"])
            good.append(picture)
    return [types.ImageContent(data=one["data"], mime_type=one["mime"]) for one in good], len(found) - len(good)


def _is_picture(picture: dict[str, str]) -> bool:
    try:
        return b64decode(picture["data"], validate=True).startswith(_MAGIC[picture["mime"]])
    except (NotBase64, ValueError):
        return False


def _middle_out(text: str) -> str:
    """Shorten a long text to its beginning and its end."""
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


_DESCRIPTION = """Run code in an isolated Linux sandbox and get its output, the value of its last expression, and \
charts as images.

State persists from call to call: variables, imports, functions and files of earlier calls remain available, as in a \
notebook. A new conversation starts with an empty session. Work in small steps and look at each result.

- Python has pandas, NumPy, SciPy, scikit-learn, Matplotlib, openpyxl and more. End with an expression to see its \
value. A Matplotlib figure is returned as an image; plt.show() is enough. !command runs a shell command.
- bash, javascript and typescript are available, too; each keeps its own variables, and all share the files.
- The working directory is /sandbox. Save files for the user in /sandbox/output: they are listed in the result and \
can be read as resources or with files_read.
- There is no network: nothing can be downloaded or installed, and no service can be reached.
- Code that fails returns the error, the line and a hint; correct the code and call again. Code that takes too long \
is interrupted and keeps its variables: raise `timeout` for long work. Code that uses too much memory restarts the \
interpreter: variables are lost, files remain."""

TOOLS = (Tool("code_execution", "Run code", _DESCRIPTION, CodeArguments, CodeAnswer, execute, destroys=True),)
