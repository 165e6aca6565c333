"""Turns a result into the text that a language model should read of it: `for_model`.

Tests: tests/results
"""
