"""The engine and the client for callers without an event loop.  All but io/ is generated: edit the async sources."""
