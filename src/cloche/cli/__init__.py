"""The command line, one file per command.  `add` declares its options, `main` does its work and returns the exit code.

Tests: tests/cli, tests/client/test_command_line.py, tests/e2b/test_command_line.py
"""
