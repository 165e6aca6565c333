"""The gate: every request passes it before any route runs (gate.py shows the journey)."""
