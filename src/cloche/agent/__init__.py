"""Runs inside a sandbox: takes frames from the engine, runs programs and file operations, sends back what happens.

Standard library and `cloche.wire` only.  In the jail it is forked from the nursery; behind other walls it is started.
"""
