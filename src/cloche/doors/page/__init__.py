"""The playground: the files that `make page` builds from `web/`, with their types, compression and policy."""
