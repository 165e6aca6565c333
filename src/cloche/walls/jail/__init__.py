"""The native jail: namespaces, a system-call filter, Landlock, control groups.  No daemon, no image, no root.

In the order in which a sandbox meets them:

    wall.py      the engine's side: asks a nursery for sandboxes and holds their leashes
    claims.py    how it asks, and the sandboxes that it has asked for before they are wanted
    launch.py    started by the wall: finds its rights, becomes the nursery's keeper
    root.py      the file system that every sandbox sees, built once
    nursery.py   forks a sandbox per claim, keeps a few ready, kills, counts, cleans up
    wards.py     the sandboxes in its care, and the claims on them
    enter.py     what a newborn sandbox does, step by step, until nothing can be taken back
    seal.py      the last of these steps: limits, capabilities, Landlock, the system-call filter

Beside them: plans.py (what a sandbox is built from), cgroups.py, group.py and cgroup_files.py (limits), shortage.py
(who goes when memory is short), filter.py, syscalls.py and seccomp.py (the system-call filter), refusals.py (what it
refused), landlock.py, pool.py (what is made ahead), leftovers.py and networks.py (what serves again), rehearsal.py
(what a nursery does before it forks), linux.py and sockets.py (system calls that Python lacks, or has only at the
price of slow imports), start.py and nurseries.py (how it all is started).
"""
