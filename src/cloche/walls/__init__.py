"""The walls: each starts an agent behind some kind of isolation, with limits and mounts, and can kill it.

wall.py is the protocol, registry.py the table of walls, and leash.py, leash_messages.py, sockets.py and portable/ are
the kit that walls are built from (docs/extend/wall.md).

Tests: tests/walls, tests/contract
"""
