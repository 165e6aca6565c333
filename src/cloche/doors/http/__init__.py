"""HTTP, version 1: one file a part of the API; `app` puts them together."""
