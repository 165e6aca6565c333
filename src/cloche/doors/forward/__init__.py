"""Requests and WebSockets passed on to a server in a sandbox, which is not trusted, and its answers passed back."""
