"""The native jail: namespaces, a system-call filter, Landlock, control groups.  No daemon, no image, no root.

In the order in which a sandbox meets them:

    wall.py      the engine's side: asks a nursery for sandboxes and holds their leashes
    launch.py    started by the wall: finds its rights, becomes the nursery's keeper
    root.py      the file system that every sandbox sees, built once
    nursery.py   forks a sandbox per claim, keeps a few ready, kills, counts, cleans up
    wards.py     the sandboxes in its care, and the claims on them
    enter.py     what a newborn sandbox does, step by step, until nothing can be taken back
    seal.py      the last of these steps: limits, capabilities, Landlock, the system-call filter

Beside them: cgroups.py, group.py and cgroup_files.py (limits), filter.py and syscalls.py (the system-call filter),
refusals.py (what it refused), landlock.py, rehearsal.py (what a nursery does before it forks), linux.py and sockets.py
(system calls that Python lacks, or has only at the price of slow imports), start.py and nurseries.py (how it all is
started).
"""
