"""The native jail: namespaces, a system-call filter, Landlock and control groups.  No daemon, no image, no root.

The files, in the order in which a sandbox meets them:

    wall.py             the engine's side: sends claims to a nursery and holds the leashes
    nursery_client.py   the nurseries of this process: started when first needed, ended with it
    claim.py            an order as plain data, on its way to a nursery
    standing_claims.py  claims sent ahead of time, so that the next sandbox is ready when it is wanted
    start.py            starts a launcher
    launch.py           finds out which rights it has, starts the nursery and stays as its keeper
    root.py             the file system that every sandbox sees, built once
    nursery_main.py     the nursery's program; warm_up.py imports libraries before it forks
    nursery.py          forks a sandbox per claim, keeps a few ready, kills, counts and cleans up
    sandbox_process.py  the nursery's record of one sandbox
    plan.py             turns an order into the plan that a new sandbox follows
    newborn.py          a fork of the nursery on its way to become an agent
    enter.py            the steps of a new sandbox into the jail, in order
    seal.py             the last of these steps: limits, capabilities, Landlock, the system-call filter

The parts that these use:

    limits              cgroups.py, group.py, cgroup_files.py, memory_shortage.py
    system-call filter  filter.py (the policy), syscalls.py, seccomp.py, refused_calls.py
    files               landlock.py, programs.py
    speed               pool.py, recycling.py, networks.py, rehearsal.py
    linux.py            system calls that Python lacks, or offers only at the price of slow imports
"""
