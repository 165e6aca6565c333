"""Streams, locks and tasks for plain threads, written by hand: the rest of `blocking/` is generated."""
