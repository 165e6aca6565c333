"""The doors: HTTP, WebSocket, MCP.  Each translates between its protocol and the service; none decides.

Tests: tests/doors
"""
