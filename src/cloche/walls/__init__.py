"""Where a run is held: a wall takes limits and mounts, starts an agent behind its isolation, and can kill it."""
