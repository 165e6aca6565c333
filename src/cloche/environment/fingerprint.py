"""Written by scripts/lock, so that a cold start finds the environment without hashing the lock."""

FINGERPRINT = "dc172d97c957"
