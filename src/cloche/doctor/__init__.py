"""`cloche doctor`: surveys the features of this host (survey), and attacks the walls to see if they hold (probes).

Tests: tests/doctor
"""
