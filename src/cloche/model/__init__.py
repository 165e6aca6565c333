"""The data that all of Cloche shares: limits, results, error kinds, events, files.  Nothing in here reads or writes.

Tests: tests/model
"""
