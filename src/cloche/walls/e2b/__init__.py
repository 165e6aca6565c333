"""Sandboxes on a service that speaks E2B's protocol, reached by E2B's own client (`pip install 'cloche[e2b]'`)."""
