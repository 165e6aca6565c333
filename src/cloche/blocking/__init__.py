"""The engine for callers without an event loop.  All but io.py is generated from the asynchronous code: edit that."""
