"""`cloche run NOTEBOOK.ipynb`: runs the cells one by one in a session, and may write their outputs back."""

from __future__ import annotations

import os
import sys
from json import dumps, loads

from cloche import languages
from cloche.errors import ClocheError, InvalidRun
from cloche.model.events import Cleared, Failed, Output, Shown
from cloche.model.result import CHART, TABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.sandbox.sandbox import Sandbox
    from cloche.cli.output_files import OutputFolder
    from cloche.model.result import Display, Error

_OURS = (TABLE, CHART)  # forms that only Cloche's own page reads
_PICTURES = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/svg+xml": "svg",
    "image/gif": "gif",
    "image/webp": "webp",
    "application/pdf": "pdf",
}


class Notebook:
    """A notebook file in format 4; all of it is kept but the outputs of the cells that run."""

    def __init__(self, path: str, language: str | None) -> None:
        self._path = path
        try:
            with open(path, "rb") as file:
                self._original = file.read()
            self._content = loads(self._original)
        except OSError as problem:
            raise InvalidRun(f"{path} cannot be read: {problem.strerror}.") from problem
        except (ValueError, RecursionError) as problem:
            raise InvalidRun(f"{path} is not a notebook: it is not JSON.", hint="Is it the right file?") from problem
        if not isinstance(self._content, dict) or not isinstance(self._content.get("cells"), list):
            older = isinstance(self._content, dict) and "worksheets" in self._content
            why = "its format is older than 4" if older else "it has no cells"
            raise InvalidRun(f"{path} is not a notebook that Cloche runs: {why}.", hint="Save it with Jupyter again.")
        self.cells = [cell for cell in self._content["cells"] if isinstance(cell, dict)]
        self.language = self._session_language(language)

    def source(self, number: int) -> str:
        """Return the code of a cell; empty for text."""
        cell = self.cells[number]
        source = cell.get("source", "")
        text = "".join(map(str, source)) if isinstance(source, list) else str(source)
        return text if cell.get("cell_type") == "code" else ""

    def save(self) -> None:
        """Replace the file as a whole, unless somebody else has changed it."""
        path = os.path.realpath(self._path)
        text = dumps(self._content, indent=1, ensure_ascii=False)
        data = text.encode("utf-8", "replace") + (b"\n" if self._original.endswith(b"\n") else b"")
        draft = f"{path}.{os.getpid()}.part"
        try:
            with open(path, "rb") as file:
                mode, is_same = os.fstat(file.fileno()).st_mode, file.read() == self._original
            if not is_same:
                raise InvalidRun(
                    f"{self._path} has changed since it was read: the outputs are not saved.", "Run it again."
                )
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                os.fchmod(file.fileno(), mode & 0o777)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except OSError as problem:
            if os.path.exists(draft):
                os.unlink(draft)
            raise InvalidRun(f"The outputs cannot be saved in {self._path}: {problem.strerror}.") from problem

    def _session_language(self, language: str | None) -> str:
        """Return the language of the notebook's kernel, if it has sessions."""
        metadata = self._content.get("metadata")
        parts = metadata if isinstance(metadata, dict) else {}
        kernel, info = (
            part if isinstance(part := parts.get(name), dict) else {} for name in ("kernelspec", "language_info")
        )
        name = str(language or kernel.get("language") or info.get("name") or kernel.get("name") or "python")
        try:
            found = languages.find(name)
        except InvalidRun:
            found = None
        if found is None or found.kernel is None:
            known = ", ".join(each.name for each in languages.everything() if each.kernel is not None)
            raise InvalidRun(
                f"{self._path} is a notebook in {name[:100]}, and Cloche has no sessions in that language.",
                hint=f"Notebooks run in {known}; name one with --language if the notebook's own name is wrong.",
            )
        return found.name


def run(notebook: Notebook, box: Sandbox, output: OutputFolder | None, saves: bool) -> int:
    """Run the cells, print their outputs, and return the exit code."""
    failed = 0
    try:
        for number in range(len(notebook.cells)):
            code = notebook.source(number)
            if not code.strip():
                continue
            cell = _RunningCell(number + 1, output)
            error = cell.run(box, code, notebook.language)
            notebook.cells[number].update(outputs=cell.outputs, execution_count=cell.count)
            if error is not None:
                failed = number + 1
                from cloche.cli.main import complain

                what = f"{error.name}: {error.message}" if error.name else f"{error.kind}: {error.message}"
                complain(f"Cell {failed} of {len(notebook.cells)} failed. {what}", error.hint)
                break
    finally:
        if saves:
            notebook.save()
    return 1 if failed else 0


class _RunningCell:
    """Prints the outputs of one cell as they happen, and collects them in the notebook's form."""

    def __init__(self, number: int, output: OutputFolder | None) -> None:
        self._number, self._output, self._pictures = number, output, 0
        self._by_id: dict[str, dict[str, Any]] = {}
        self.outputs: list[dict[str, Any]] = []
        self.count: int | None = None

    def run(self, box: Sandbox, code: str, language: str) -> Error | None:
        error = None
        events = box.stream(code, language=language)
        for event in events:
            if isinstance(event, Output):
                self._write(event)
            elif isinstance(event, Shown):
                self._show(event.result, event.update)
            elif isinstance(event, Cleared):
                self.outputs.clear()
            elif isinstance(event, Failed):
                error = event.error
                self._fail(error)
        result = events.result
        if result is not None:
            self.count = result.execution_count
            error = error or result.error
        for one in self.outputs:
            if one["output_type"] == "execute_result":
                one["execution_count"] = self.count
            elif one["output_type"] == "stream":
                one["text"] = _lines(one["text"].decode(errors="replace"))
        return error

    def _write(self, event: Output) -> None:
        stream = (sys.stdout if event.kind == "stdout" else sys.stderr).buffer
        stream.write(event.data)
        stream.flush()
        if not self.outputs or self.outputs[-1].get("name") != event.kind:
            self.outputs.append({"output_type": "stream", "name": event.kind, "text": bytearray()})
        self.outputs[-1]["text"] += event.data

    def _show(self, shown: Display, update: bool) -> None:
        known = self._by_id.get(shown.display_id or "")
        data = {mime: _data(mime, value) for mime, value in shown.mime.items() if mime not in _OURS}
        if known is not None and update:
            known.update(data=data, metadata=_metadata(shown))
        else:
            kind = "execute_result" if shown.is_main else "display_data"
            made: dict[str, Any] = {"output_type": kind, "data": data, "metadata": _metadata(shown)}
            self.outputs.append(made)
            if shown.display_id:
                self._by_id[shown.display_id] = made
        _print("\n".join(self._texts(shown)), sys.stdout)

    def _texts(self, shown: Display) -> list[str]:
        """Return what a terminal shows of a display, and save its picture."""
        lines = []
        mime = next((mime for mime in _PICTURES if mime in shown.mime), None)
        if shown.text:
            lines.append(str(shown.text))
        picture = _picture(shown, mime) if mime is not None else None
        if mime is not None and picture is not None:
            self._pictures += 1
            again = f"-{self._pictures}" if self._pictures > 1 else ""
            name = f"cell-{self._number}{again}.{_PICTURES[mime]}"
            if self._output is None:
                lines.append(f"[a picture: --out DIR saves it as {name}]")
            else:
                self._output.save(name, picture)
                lines.append(f"[a picture: {name}]")
        return lines or [f"[{', '.join(mime for mime in shown.mime if mime not in _OURS)}]"]

    def _fail(self, error: Error) -> None:
        name, trace = error.name or error.kind, error.traceback_ansi or error.traceback or error.message
        failure = {"output_type": "error", "ename": name, "evalue": error.message, "traceback": trace.split("\n")}
        self.outputs.append(failure)
        if error.traceback:
            _print(trace if sys.stderr.isatty() else error.traceback, sys.stderr)


def _print(text: str, stream: Any) -> None:
    sys.stdout.flush()
    stream.buffer.write(text.encode("utf-8", "replace") + b"\n")
    stream.buffer.flush()


def _picture(shown: Display, mime: str) -> bytes | None:
    """Return a picture; None if the cell has displayed something else under the name of one."""
    try:
        return shown.data(mime)
    except ValueError:
        return None


def _lines(text: str) -> list[str]:
    """Split a text as notebooks do: each line with its end."""
    return text.splitlines(keepends=True)


def _data(mime: str, value: Any) -> Any:
    if mime == "application/json" or mime.endswith("+json") or not isinstance(value, str):
        return value
    return value if mime in _PICTURES and mime != "image/svg+xml" else _lines(value)


def _metadata(shown: Display) -> dict[str, Any]:
    return dict(shown.metadata) if isinstance(shown.metadata, dict) else {}


def check_options(arguments: Any) -> None:
    """Refuse options that mean nothing for a notebook."""
    if arguments.json_ or arguments.args:
        what = "--json is" if arguments.json_ else "Arguments are"
        raise InvalidRun(
            f"{what} for programs, not for notebooks.", hint="--save writes the outputs into the notebook."
        )


def copy_in(box: Sandbox, files: dict[str, bytes]) -> None:
    """Copy the files of --file into the sandbox."""
    for target, data in files.items():
        box.files.write(target, data)


def take_files(box: Sandbox, output: OutputFolder) -> None:
    """Copy the output files out of the sandbox, unless it has ended."""
    try:
        output.fill(box.backend.files)
    except ClocheError:
        pass  # the error of the cell says why the sandbox has ended
