"""Resolves, checks, downloads and unpacks packages, once, into read-only layers that sandboxes see by mounts.

The names that a caller asks for come in and layers go out; the front calls it for `packages=` and for installs in live
sandboxes, and the command line and the service for environments.

Tests: tests/packages
"""
