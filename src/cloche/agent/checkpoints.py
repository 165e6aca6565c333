"""Checkpoints: frozen copies of the Python kernels, and the files as they were; restored any number of times.

A frozen copy is a kernel that nobody gives cells to: restoring forks it again.  Files are versioned (see versions/) by
an errand, so that the agent goes on listening; unless there are so few that it is done at once.
"""

from __future__ import annotations

import os
import shutil

from cloche.agent.background_jobs import BackgroundJobs
from cloche.agent.kernel_process import KernelProcess
from cloche.agent.pending_replies import PendingReply
from cloche.agent.versions import Versions, mapped
from cloche.wire import frames
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.agent.contexts import AgentContext
    from cloche.agent.main import Agent

MAX_CHECKPOINTS = 64
_FEW, _LITTLE = 200, 1 << 20  # files, and bytes in them, that are no errand
_MERGED = "merged"  # a version for a moment; the engine gives checkpoints other names
BRANCHES = "/tmp/branches"  # where a branch with files of its own finds them
_ANSWER_S = 15.0  # for a kernel to copy itself; code of the user's can keep it from doing so for ever
_TOLD = 250_000  # bytes of paths of one kind, as JSON, in an answer
_GONE = "the copy of its variables was killed, perhaps for want of memory"


class AgentCheckpoint:
    """A moment that can be gone back to; owner of its frozen kernels."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.contexts: dict[str, dict[str, Any]] = {}  # those that there were: how to make them again
        self.frozen: dict[str, KernelProcess] = {}
        self.folders: dict[str, str] = {}  # the working directory of each; by path, for it may be made anew
        self.killed: set[str] = set()  # contexts whose copies are not there any more

    def takes(self, _kernel: KernelProcess, _operation: int, _kind: int, _payload: bytes) -> bool:
        """A frozen kernel has nothing to say."""
        return True

    def kernel_ended(self, kernel: KernelProcess, _code: int) -> None:
        """Somebody has killed it: what it held is lost."""
        for name in [name for name, frozen in self.frozen.items() if frozen is kernel]:
            del self.frozen[name]
            self.killed.add(name)

    def thaw(self) -> None:
        """Let go of the frozen kernels."""
        frozen, self.frozen = self.frozen, {}
        for kernel in frozen.values():
            kernel.kill()


class AgentCheckpoints:
    """The checkpoints of one sandbox."""

    def __init__(self, agent: Agent, top: int, store: int) -> None:
        self._agent, self._top, self._store, self._errands = agent, top, store, BackgroundJobs(agent)
        self.by_name: dict[str, AgentCheckpoint] = {}
        self._last_branch = 0

    def _versions(self) -> Versions:
        """The versions of the files, with an eye on those that a program may change unseen."""
        asleep = {str(kernel.pid) for known in self.by_name.values() for kernel in known.frozen.values()}
        return Versions(self._top, self._store, mapped(self._top, frozenset((*asleep, "1"))))

    def _send(self, job: Callable[[], dict[str, Any]], done: Callable[[dict[str, Any] | OSError], None]) -> None:
        """Have a job on the files done; by ourselves where that is quicker than to send somebody."""
        self._errands.add(job, done, quick=_is_small(self._agent.home))

    def find(self, name: str) -> AgentCheckpoint:
        """The checkpoint of this name."""
        if name not in self.by_name:
            raise FileNotFoundError(2, f"there is no checkpoint {name}")
        return self.by_name[name]

    def take(self, operation: int, request: dict[str, Any]) -> None:
        """Make a checkpoint of all contexts and files; or of the files alone."""
        name = str(request["name"])
        if name in self.by_name or len(self.by_name) >= MAX_CHECKPOINTS:
            raise OSError(17, f"there is a checkpoint {name} already, or there are too many")
        checkpoint = self.by_name[name] = AgentCheckpoint(name)
        step = PendingReply(self._agent, operation, PendingReply.finish)
        step.undo.append(lambda: self._forget(checkpoint))
        step.reply["lost"] = {}
        for context in self._agent.contexts.by_name.values():
            checkpoint.contexts[context.name] = context.description
            if context.kernel is None or not _forks(context) or not request.get("contexts", True):
                continue
            checkpoint.folders[context.name] = _working_directory(context.kernel)
            try:
                copy = context.kernel.fork(checkpoint, {"frozen": True, "cwd": None})
            except OSError as problem:  # we have too many descriptors open
                step.fail(problem)
                break
            checkpoint.frozen[context.name] = copy
            copy.ready = self._told(step, copy, context.name)
        self._send(lambda: {"files": self._versions().take(name)}, step.waits())
        step.go()

    def restore(self, operation: int, request: dict[str, Any]) -> None:
        """Make variables and files what they were; or the files alone."""
        checkpoint = self.find(str(request["name"]))
        with_contexts = request.get("contexts", True)
        if with_contexts:
            self._stop_all(checkpoint)  # before their files go
        files = PendingReply(
            self._agent, operation, lambda step: self._thaw(step, checkpoint if with_contexts else None)
        )
        files.reply = {
            "lost": {},
            "contexts": list(checkpoint.contexts),
            "restarted": [name for name in checkpoint.contexts if name not in checkpoint.frozen],
        }
        self._send(lambda: {"files": self._versions().restore(checkpoint.name)}, files.waits())
        files.go()

    def _stop_all(self, checkpoint: AgentCheckpoint) -> None:
        contexts = self._agent.contexts
        for name in [name for name in contexts.by_name if name not in checkpoint.contexts]:
            contexts.remove(name)
        for name, description in checkpoint.contexts.items():
            context = contexts.by_name.get(name) or contexts.add(name, description)
            context.stop()
            context.lost = False

    def _thaw(self, files: PendingReply, checkpoint: AgentCheckpoint | None) -> None:
        """The files are there: now the kernels, which open them again."""
        if checkpoint is None or files.problem is not None or self._agent.operations.get(files.operation) is not files:
            files.finish()
            return
        step = PendingReply(self._agent, files.operation, PendingReply.finish)
        step.reply = files.reply
        for name, frozen in list(checkpoint.frozen.items()):
            context = self._agent.contexts.by_name.get(name)
            if context is None:
                continue  # it was removed meanwhile
            context.stop()  # whatever has begun in it meanwhile
            try:
                copy = frozen.fork(context, {"frozen": False, "cwd": _existing(checkpoint.folders[name])})
            except OSError as problem:
                step.fail(problem)
                break
            context.adopt(copy)
            copy.ready = self._told(step, copy, name, frozen.lost)
            step.undo.append(context.stop)
        step.go()

    def branch(self, operation: int, request: dict[str, Any]) -> None:
        """A new context that goes on from where a checkpoint, or a live context, is."""
        source = str(request["context"])
        contexts = self._agent.contexts
        if request.get("name") is not None:
            checkpoint = self.find(str(request["name"]))
            if source in checkpoint.killed:
                raise OSError(5, _GONE)
            kernel = checkpoint.frozen.get(source)
            folder = checkpoint.folders.get(source, "")
            description = checkpoint.contexts.get(source)
            if description is None and source in contexts.by_name:  # it had not begun: a branch begins from nothing
                description = contexts.by_name[source].description
        else:
            context = contexts.find(source)
            kernel, description = context.kernel, context.description
            folder = "" if kernel is None else _working_directory(kernel)
            if context.cell is not None:
                raise OSError(16, "this context runs a cell")
        if description is None:
            raise FileNotFoundError(2, f"there was no context {source}")
        if kernel is None and "fork" not in description["how"]:
            raise OSError(38, "a branch needs a Python context")
        branch = contexts.add(str(request["new"]), description)
        files = PendingReply(self._agent, operation, lambda step: self._grow(step, branch, kernel))
        files.undo.append(lambda: contexts.remove(branch.name))
        if request.get("files") == "copy":
            self._copy_files(files, branch, request.get("name"))
            files.reply["cwd"] = _moved(folder or branch.description["cwd"], self._agent.home, str(branch.folder))
            branch.description = {**branch.description, "cwd": files.reply["cwd"]}
        files.go()

    def _copy_files(self, step: PendingReply, branch: AgentContext, name: str | None) -> None:
        self._last_branch += 1
        folder = branch.folder = f"{BRANCHES}/{self._last_branch}"

        def copy() -> dict[str, Any]:
            os.makedirs(folder)
            to = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                return {"files": self._versions().copy(name, to)}
            finally:
                os.close(to)

        step.reply["folder"] = folder
        self._send(copy, step.waits())

    def _grow(self, files: PendingReply, branch: AgentContext, kernel: KernelProcess | None) -> None:
        if self._agent.contexts.by_name.get(branch.name) is not branch:
            files.fail(FileNotFoundError(2, "the branch was removed"))
        if files.problem is not None or kernel is None or self._agent.operations.get(files.operation) is not files:
            files.finish()
            return
        step = PendingReply(self._agent, files.operation, PendingReply.finish)
        step.reply, step.undo = {**files.reply, "lost": {}}, files.undo
        try:
            copy = kernel.fork(branch, {"frozen": False, "cwd": _existing(files.reply.get("cwd") or "")})
        except OSError as problem:
            step.fail(problem)
            step.go()
            return
        branch.adopt(copy)
        copy.ready = self._told(step, copy, branch.name)
        step.go()

    def replace(self, operation: int, request: dict[str, Any]) -> None:
        """Let a context go on as one of its branches; with `folder`, the branch's files become everybody's."""
        contexts = self._agent.contexts
        context, branch = contexts.find(str(request["context"])), contexts.find(str(request["by"]))
        if context.cell is not None or branch.cell is not None:
            raise OSError(16, "a cell is running")
        step = PendingReply(self._agent, operation, lambda step: self._swap(step, context, branch))
        if branch.folder is not None:
            folder = branch.folder
            self._send(lambda: self._merge(folder), step.waits())
        step.go()

    def _swap(self, merged: PendingReply, context: AgentContext, branch: AgentContext) -> None:
        """The files are everybody's now: so are the variables."""
        by_name = self._agent.contexts.by_name
        if by_name.get(context.name) is not context or by_name.get(branch.name) is not branch:
            merged.fail(FileNotFoundError(2, "the context was removed"))
        if merged.problem is not None or self._agent.operations.get(merged.operation) is not merged:
            merged.finish()
            return
        context.stop()
        kernel, branch.kernel = branch.kernel, None
        step = PendingReply(self._agent, merged.operation, PendingReply.finish)
        step.reply = merged.reply
        if kernel is not None:
            context.adopt(kernel)
            if branch.folder is not None:
                done = step.waits()
                folder = _moved(_working_directory(kernel), branch.folder, self._agent.home)
                kernel.ask(frames.ASK, {"what": "move", "cwd": folder}, lambda _: done(None))
                self._agent.after(_ANSWER_S, step.cancel)
        self._agent.contexts.remove(branch.name)
        step.go()

    def clear(self, folder: str) -> None:
        """Remove the files that a branch had for itself."""
        self._errands.add(lambda: _remove(folder), lambda _: None)

    def _merge(self, folder: str) -> dict[str, Any]:
        source = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            versions = self._versions()
            merged = versions.merge(source, _MERGED)
            versions.forget(_MERGED)
        finally:
            os.close(source)
        if merged["problem"]:
            raise OSError(5, str(merged["problem"]))
        return {"files": merged}

    def changes(self, operation: int, request: dict[str, Any]) -> None:
        """What has changed in the files since a checkpoint."""
        checkpoint = self.find(str(request["name"]))
        step = PendingReply(self._agent, operation, PendingReply.finish)
        self._send(lambda: {"changes": _bounded(self._versions().changes(checkpoint.name))}, step.waits())
        step.go()

    def forget(self, operation: int, request: dict[str, Any]) -> None:
        """Remove a checkpoint."""
        checkpoint = self.find(str(request["name"]))
        step = PendingReply(self._agent, operation, PendingReply.finish)
        done = step.waits()
        self._forget(checkpoint, lambda _: done(None))  # what could not be removed is swept away with the next
        step.go()

    def _forget(
        self, checkpoint: AgentCheckpoint, done: Callable[[dict[str, Any] | OSError], None] = lambda _: None
    ) -> None:
        self.by_name.pop(checkpoint.name, None)
        checkpoint.thaw()
        self._send(lambda: self._forget_files(checkpoint.name), done)

    def _forget_files(self, name: str) -> dict[str, Any]:
        Versions(self._top, self._store).forget(name)
        return {}

    def _told(
        self, step: PendingReply, copy: KernelProcess, name: str, lost_before: dict[str, Any] | None = None
    ) -> Callable[[OSError | None], None]:
        """What to call when a copy is ready, or cannot be; `lost_before` is what it is a copy of had lost already."""
        done = step.waits()
        alarm = self._agent.after(_ANSWER_S, lambda: copy.fail(OSError(110, f"the kernel of {name} does not answer")))

        def ready(problem: OSError | None) -> None:
            self._agent.forget_alarm(alarm)
            lost = _sensible(copy.lost if lost_before is None else lost_before)
            if problem is None and any(lost.values()):
                step.reply["lost"][name] = lost
            done(problem)

        return ready


def _is_small(folder: str) -> bool:
    """Is it a matter of a millisecond or two to go through all files?"""
    ahead, entries, size = [folder], 0, 0
    while ahead:
        try:
            with os.scandir(ahead.pop()) as scan:
                for item in scan:
                    entries += 1
                    if item.is_dir(follow_symlinks=False):
                        ahead.append(item.path)
                    elif item.is_file(follow_symlinks=False):
                        size += item.stat(follow_symlinks=False).st_size
                    if entries > _FEW or size > _LITTLE:
                        return False
        except OSError:
            return False
    return True


def _forks(context: AgentContext) -> bool:
    """Only Python's kernels can be copied."""
    return bool(context.description["how"].get("fork") == "python")


def _working_directory(kernel: KernelProcess) -> str:
    try:
        return os.readlink(f"/proc/{kernel.pid}/cwd")
    except OSError:
        return ""


def _existing(folder: str) -> str | None:
    return folder if os.path.isdir(folder) else None


def _moved(path: str, old: str, new: str) -> str:
    """The same place below another folder; that folder itself for what is not below the old one."""
    return new + path[len(old) :] if path.startswith(f"{old}/") else new


def _sensible(lost: dict[str, Any]) -> dict[str, Any]:
    """What a kernel says that it lost, as far as it could be true."""
    threads = lost.get("threads")
    counts = {name: lost[name] if type(lost.get(name)) is int else 0 for name in ("children", "sockets")}
    return {"threads": [str(name)[:100] for name in threads[:100]] if isinstance(threads, list) else [], **counts}


def _bounded(changes: dict[str, Any]) -> dict[str, Any]:
    for kind in ("created", "changed", "removed"):
        room = _TOLD
        for count, path in enumerate(changes[kind]):
            room -= len(dumps(path))
            if room < 0:
                changes[kind] = changes[kind][:count]
                break
    return changes


def _remove(folder: str) -> dict[str, Any]:
    shutil.rmtree(folder, ignore_errors=True)  # never follows a link
    return {}


def _call(method: str) -> Callable[[Agent, int, dict[str, Any]], None]:
    return lambda agent, operation, request: getattr(agent.checkpoints, method)(operation, request)


CALLS = {
    "checkpoint": _call("take"),
    "restore": _call("restore"),
    "branch": _call("branch"),
    "replace context": _call("replace"),
    "changes": _call("changes"),
    "forget checkpoint": _call("forget"),
}
