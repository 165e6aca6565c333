"""`cloche doctor`: what this host offers and lacks (survey), and whether the walls hold when attacked (probes).

Tests: tests/doctor
"""
