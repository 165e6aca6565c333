"""Written by scripts/lock, so that a cold start need not hash the lock to know where the environment lives."""

FINGERPRINT = "dc172d97c957"
