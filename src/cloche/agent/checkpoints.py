"""Checkpoints: frozen copies of the Python kernels and a version of the files.  Each can be restored many times.

A frozen copy is a kernel that gets no cells; restoring forks it again.  A background job records the files (see
versions/), so that the agent keeps serving the engine; a few small files are recorded at once.
"""

from __future__ import annotations

import os
import shutil

from cloche.agent.background_jobs import BackgroundJobs
from cloche.agent.kernel_process import KernelProcess
from cloche.agent.pending_replies import PendingReply
from cloche.agent.tracked_files import FileVersions, TrackedFiles, beside
from cloche.wire import frames
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.agent.contexts import AgentContext
    from cloche.agent.main import Agent
    from cloche.agent.messages import ContextDescription

MAX_CHECKPOINTS = 64
_QUICK_FILES, _QUICK_BYTES = 200, 1 << 20  # up to so many files and bytes, a job runs in the agent itself
_MERGED = "merged"  # a temporary version; the engine never uses this name for a checkpoint
BRANCHES = "/tmp/branches"  # holds the files of branches that have their own
_ANSWER_S = 15.0  # for a kernel to copy itself, which user code can block forever
_MAX_LISTED_BYTES = 250_000  # bytes of paths per kind of change in a reply, as JSON
LANGUAGE, KILLED = "language", "killed"  # why variables are lost: no kernel of the language can be copied, or see below
_COPY_KILLED = "the copy of its variables was killed, possibly because memory ran out"


class AgentCheckpoint:
    """A saved moment that can be restored, and the owner of its frozen kernels."""

    def __init__(self, name: str) -> None:
        self.name = name
        # Descriptions of the contexts at that moment, to create them again.
        self.contexts: dict[str, ContextDescription] = {}
        self.frozen: dict[str, KernelProcess] = {}
        # Working directory of each context; a path, because the folder may be recreated.
        self.folders: dict[str, str] = {}
        self.killed: set[str] = set()  # contexts whose copies were killed since
        self.uncopied: set[str] = set()  # contexts with variables in a language whose kernels cannot be copied

    def accept_frame(self, _kernel: KernelProcess, _operation: int, _kind: int, _payload: bytes) -> bool:
        """Ignore frames: a frozen kernel has nothing to report."""
        return True

    def kernel_ended(self, kernel: KernelProcess, _code: int) -> None:
        """Note that a frozen kernel was killed and its variables are lost."""
        for name in [name for name, frozen in self.frozen.items() if frozen is kernel]:
            del self.frozen[name]
            self.killed.add(name)

    def thaw(self) -> None:
        """End the frozen kernels."""
        frozen, self.frozen = self.frozen, {}
        for kernel in frozen.values():
            kernel.kill()


class AgentCheckpoints:
    """The checkpoints of one sandbox."""

    def __init__(self, agent: Agent, files: TrackedFiles) -> None:
        self._agent, self._files, self._jobs = agent, files, BackgroundJobs(agent)
        self.by_name: dict[str, AgentCheckpoint] = {}
        self._last_branch = 0

    def _versions(self) -> FileVersions:
        frozen_pids = {str(kernel.pid) for known in self.by_name.values() for kernel in known.frozen.values()}
        return self._files.versions(asleep=frozenset((*frozen_pids, "1")))

    def _run_job(self, job: Callable[[], dict[str, Any]], done: Callable[[dict[str, Any] | OSError], None]) -> None:
        """Run a job on the files: in the agent itself if they are few, which is quicker than a fork."""
        self._jobs.add(job, done, quick=self._files.are_few(_QUICK_FILES, _QUICK_BYTES))

    def find(self, name: str) -> AgentCheckpoint:
        """Return the checkpoint of this name, or raise FileNotFoundError."""
        if name not in self.by_name:
            raise FileNotFoundError(2, f"there is no checkpoint named {name}")
        return self.by_name[name]

    def take(self, operation: int, request: dict[str, Any]) -> None:
        """Make a checkpoint of the files, and of all contexts unless the request leaves them out."""
        name = str(request["name"])
        if name in self.by_name or len(self.by_name) >= MAX_CHECKPOINTS:
            raise OSError(17, f"a checkpoint named {name} already exists, or there are too many checkpoints")
        checkpoint = self.by_name[name] = AgentCheckpoint(name)
        step = PendingReply(self._agent, operation, PendingReply.finish)
        step.undo.append(lambda: self._forget(checkpoint))
        step.reply["lost"] = {}
        for context in self._agent.contexts.by_name.values():
            checkpoint.contexts[context.name] = context.description
            if context.kernel is None or not request.get("contexts", True):
                continue
            if not _can_fork(context):
                checkpoint.uncopied.add(context.name)
                step.reply["lost"][context.name] = {"variables": LANGUAGE}
                continue
            checkpoint.folders[context.name] = _working_directory(context.kernel)
            try:
                copy = context.kernel.fork(checkpoint, {"frozen": True, "cwd": None})
            except OSError as problem:  # too many open descriptors
                step.fail(problem)
                break
            checkpoint.frozen[context.name] = copy
            copy.ready = self._ready_callback(step, copy, context.name)
        self._run_job(lambda: {"files": self._versions().take(name)}, step.expect())
        step.all_started()

    def restore(self, operation: int, request: dict[str, Any]) -> None:
        """Restore the files, and the variables of all contexts unless the request leaves them out."""
        checkpoint = self.find(str(request["name"]))
        with_contexts = request.get("contexts", True)
        if with_contexts:
            self._stop_all(checkpoint)  # before their files are replaced
        files = PendingReply(
            self._agent, operation, lambda step: self._thaw(step, checkpoint if with_contexts else None)
        )
        files.reply = {
            "lost": {
                **{name: {"variables": LANGUAGE} for name in sorted(checkpoint.uncopied)},
                **{name: {"variables": KILLED} for name in sorted(checkpoint.killed)},
            },
            "contexts": list(checkpoint.contexts),
            "restarted": [name for name in checkpoint.contexts if name not in checkpoint.frozen],
        }
        self._run_job(lambda: {"files": self._versions().restore(checkpoint.name)}, files.expect())
        files.all_started()

    def _stop_all(self, checkpoint: AgentCheckpoint) -> None:
        contexts = self._agent.contexts
        for name in [name for name in contexts.by_name if name not in checkpoint.contexts]:
            contexts.remove(name)
        for name, description in checkpoint.contexts.items():
            context = contexts.by_name.get(name) or contexts.add(name, description)
            context.stop()
            context.lost = False

    def _thaw(self, files: PendingReply, checkpoint: AgentCheckpoint | None) -> None:
        """Fork the frozen kernels.  The files are in place by now, because the kernels open them again."""
        if checkpoint is None or files.problem is not None or self._agent.operations.get(files.operation) is not files:
            files.finish()
            return
        step = PendingReply(self._agent, files.operation, PendingReply.finish)
        step.reply = files.reply
        for name, frozen in list(checkpoint.frozen.items()):
            context = self._agent.contexts.by_name.get(name)
            if context is None:
                continue  # removed in the meantime
            context.stop()  # end a cell that was started in the meantime
            try:
                copy = frozen.fork(context, {"frozen": False, "cwd": _existing(checkpoint.folders[name])})
            except OSError as problem:
                step.fail(problem)
                break
            context.adopt(copy)
            copy.ready = self._ready_callback(step, copy, name, frozen.lost)
            step.undo.append(context.stop)
        step.all_started()

    def branch(self, operation: int, request: dict[str, Any]) -> None:
        """Add a context that continues from a checkpoint or from a live context."""
        source = str(request["context"])
        contexts = self._agent.contexts
        if request.get("name") is not None:
            checkpoint = self.find(str(request["name"]))
            if source in checkpoint.killed:
                raise OSError(5, _COPY_KILLED)
            kernel = checkpoint.frozen.get(source)
            folder = checkpoint.folders.get(source, "")
            description = checkpoint.contexts.get(source)
            if description is None and source in contexts.by_name:  # it had no kernel yet: the branch starts empty
                description = contexts.by_name[source].description
        else:
            context = contexts.find(source)
            kernel, description = context.kernel, context.description
            folder = "" if kernel is None else _working_directory(kernel)
            if context.cell is not None:
                raise OSError(16, "the context is running a cell")
        if description is None:
            raise FileNotFoundError(2, f"the checkpoint has no context named {source}")
        if kernel is None and "fork" not in description["how"]:
            raise OSError(38, "only Python contexts can be branched")
        branch = contexts.add(str(request["new"]), description)
        # A frozen kernel lost its threads when it was made.
        lost_before = kernel.lost if kernel is not None and request.get("name") is not None else None
        files = PendingReply(self._agent, operation, lambda step: self._start_branch(step, branch, kernel, lost_before))
        files.undo.append(lambda: contexts.remove(branch.name))
        if request.get("files") == "copy":
            self._copy_files(files, branch, request.get("name"))
            files.reply["cwd"] = _moved(folder or branch.description["cwd"], self._agent.home, str(branch.folder))
            branch.description = {**branch.description, "cwd": files.reply["cwd"]}
        files.all_started()

    def _copy_files(self, step: PendingReply, branch: AgentContext, name: str | None) -> None:
        self._last_branch += 1
        folder = branch.folder = f"{BRANCHES}/{self._last_branch}"

        step.reply["folder"] = folder
        self._run_job(lambda: {"files": self._versions().copy(name, folder)}, step.expect())

    def _start_branch(
        self,
        files: PendingReply,
        branch: AgentContext,
        kernel: KernelProcess | None,
        lost_before: dict[str, Any] | None,
    ) -> None:
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
            step.all_started()
            return
        branch.adopt(copy)
        copy.ready = self._ready_callback(step, copy, branch.name, lost_before)
        step.all_started()

    def replace(self, operation: int, request: dict[str, Any]) -> None:
        """Let a context continue as one of its branches; a branch's own files replace the workspace."""
        contexts = self._agent.contexts
        context, branch = contexts.find(str(request["context"])), contexts.find(str(request["by"]))
        if context.cell is not None or branch.cell is not None:
            raise OSError(16, "a cell is running")
        step = PendingReply(self._agent, operation, lambda step: self._swap(step, context, branch))
        if branch.folder is not None:
            folder = branch.folder
            self._run_job(lambda: self._merge(folder), step.expect())
        step.all_started()

    def _swap(self, merged: PendingReply, context: AgentContext, branch: AgentContext) -> None:
        """Move the branch's kernel to the context, after the files have moved."""
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
                done = step.expect()
                folder = _moved(_working_directory(kernel), branch.folder, self._agent.home)
                kernel.ask(frames.ASK, {"what": "move", "cwd": folder}, lambda _: done(None))
                self._agent.after(_ANSWER_S, step.cancel)
        self._agent.contexts.remove(branch.name)
        step.all_started()

    def clear(self, folder: str) -> None:
        """Remove the files of a branch."""
        self._jobs.add(lambda: _remove(folder), lambda _: None)

    def _merge(self, folder: str) -> dict[str, Any]:
        source = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            merged = self._versions().merge(source, _MERGED)
        finally:
            os.close(source)
        if merged["problem"]:
            raise OSError(5, str(merged["problem"]))
        return {"files": merged}

    def changes(self, operation: int, request: dict[str, Any]) -> None:
        """List the files that changed since a checkpoint."""
        checkpoint = self.find(str(request["name"]))
        step = PendingReply(self._agent, operation, PendingReply.finish)
        self._run_job(lambda: {"changes": _bounded(self._versions().changes(checkpoint.name))}, step.expect())
        step.all_started()

    def forget(self, operation: int, request: dict[str, Any]) -> None:
        """Remove a checkpoint."""
        checkpoint = self.find(str(request["name"]))
        step = PendingReply(self._agent, operation, PendingReply.finish)
        done = step.expect()
        # Files that could not be removed are swept with the next checkpoint.
        self._forget(checkpoint, lambda _: done(None))
        step.all_started()

    def _forget(
        self, checkpoint: AgentCheckpoint, done: Callable[[dict[str, Any] | OSError], None] = lambda _: None
    ) -> None:
        self.by_name.pop(checkpoint.name, None)
        checkpoint.thaw()
        self._run_job(lambda: self._forget_files(checkpoint.name), done)

    def _forget_files(self, name: str) -> dict[str, Any]:
        self._files.versions(asleep=None).forget(name)
        return {}

    def _ready_callback(
        self, step: PendingReply, copy: KernelProcess, name: str, lost_before: dict[str, Any] | None = None
    ) -> Callable[[OSError | None], None]:
        """Return the callback for a copy that has started or failed to.

        `lost_before` says what the kernel that was copied had already lost.
        """
        done = step.expect()
        alarm = self._agent.after(
            _ANSWER_S, lambda: copy.fail(OSError(110, f"the kernel of context {name} does not answer"))
        )

        def ready(problem: OSError | None) -> None:
            self._agent.forget_alarm(alarm)
            lost = _validated_losses(copy.lost if lost_before is None else lost_before)
            if problem is None and any(lost.values()):
                step.reply["lost"][name] = lost
            done(problem)

        return ready


def _can_fork(context: AgentContext) -> bool:
    """Say whether the context's kernel can be copied; only Python's can."""
    return bool(context.description["how"].get("fork") == "python")


def _working_directory(kernel: KernelProcess) -> str:
    try:
        return os.readlink(f"/proc/{kernel.pid}/cwd")
    except OSError:
        return ""


def _existing(folder: str) -> str | None:
    return folder if os.path.isdir(folder) else None


def _moved(path: str, old: str, new: str) -> str:
    """Return the same path below another folder, or that folder itself for a path outside the old one."""
    return new + path[len(old) :] if path.startswith(f"{old}/") else new


def _validated_losses(lost: dict[str, Any]) -> dict[str, Any]:
    """Keep the well-formed part of what a kernel reports as lost."""
    threads = lost.get("threads")
    counts = {name: lost[name] if type(lost.get(name)) is int else 0 for name in ("children", "sockets")}
    return {"threads": [str(name)[:100] for name in threads[:100]] if isinstance(threads, list) else [], **counts}


def _bounded(changes: dict[str, Any]) -> dict[str, Any]:
    for kind in ("created", "changed", "removed"):
        room = _MAX_LISTED_BYTES
        for count, path in enumerate(changes[kind]):
            room -= len(dumps(path))
            if room < 0:
                changes[kind] = changes[kind][:count]
                break
    return changes


def _remove(folder: str) -> dict[str, Any]:
    for copied in (folder, beside(folder)):
        shutil.rmtree(copied, ignore_errors=True)  # never follows a link
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
