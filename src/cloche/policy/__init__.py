"""Decides who may do what: keys and their policies, scopes, the operator's bounds, mounts.

A verb of `service/` asks here before it acts, and nothing else in the server decides.

Tests: tests/policy
"""
