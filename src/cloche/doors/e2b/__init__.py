"""The E2B API: E2B's own clients, unmodified, work with the sandboxes of this server (docs/e2b.md).

Tests: tests/e2b
"""
