"""Adds what sessions need (contexts, checkpoints) to an agent; a cold `cloche run` does without it."""

from __future__ import annotations

from cloche.agent import checkpoints, contexts, table_requests, workspace
from cloche.agent.tracked_files import TrackedFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.agent.main import Agent


def enable(agent: Agent, store: int, bare_root: int | None) -> None:
    """Give an agent contexts and checkpoints.

    `store` is a folder that programs cannot reach; `bare_root` is the root without its mounts, if the sandbox has one
    of its own.
    """
    agent.contexts = contexts.AgentContexts(agent)
    agent.bare_root = bare_root
    agent.checkpoints = checkpoints.AgentCheckpoints(agent, TrackedFiles(agent.home, store, bare_root))
    agent.table_reader = table_requests.TableReader(agent)
    agent.calls.update({**contexts.CALLS, **table_requests.CALLS, **checkpoints.CALLS, **workspace.CALLS})
    agent.start_cell = contexts.start_cell
