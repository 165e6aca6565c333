"""The playground: what `make` built from `web/`, sent with its types, tags, compressed forms and policy."""
