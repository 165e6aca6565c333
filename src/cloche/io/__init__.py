"""Streams, locks and tasks: the few primitives that differ between asyncio and plain threads.

Tests: tests/engine
"""
