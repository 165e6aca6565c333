"""The command line, one file per command.  `add` declares its options, `main` does its work and returns the exit code.

Its tests are in `tests/cli`, `tests/client/test_command_line.py` and `tests/e2b/test_command_line.py`.
"""
