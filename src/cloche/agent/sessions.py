"""Adds what sessions need (contexts, checkpoints) to an agent; a cold `cloche run` does without it."""

from __future__ import annotations

import os

from cloche.agent import checkpoints, contexts, workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.agent.main import Agent


def enable(agent: Agent, store: int) -> None:
    """Give an agent contexts and checkpoints; `store` is a folder that programs cannot reach."""
    agent.contexts = contexts.AgentContexts(agent)
    top = os.open(agent.home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    agent.checkpoints = checkpoints.AgentCheckpoints(agent, top, store)
    agent.calls.update({**contexts.CALLS, **checkpoints.CALLS, **workspace.CALLS})
    agent.start_cell = contexts.start_cell
