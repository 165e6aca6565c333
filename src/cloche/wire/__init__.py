"""The protocol between engine and agent: frames on one byte stream, bounded on both sides.

Tests: tests/wire
"""
