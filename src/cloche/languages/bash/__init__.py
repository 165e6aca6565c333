"""Bash."""
