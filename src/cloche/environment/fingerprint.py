"""Written by scripts/lock, so that a cold start need not hash the lock to know where the environment lives."""

FINGERPRINT = "fbd94125c2ac"
