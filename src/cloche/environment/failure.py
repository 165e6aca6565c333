"""The error of a build."""

__all__ = ["BuildFailed"]


class BuildFailed(RuntimeError):
    """The environment could not be built; the message names the step that failed and quotes its output."""
