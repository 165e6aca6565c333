"""The command line: one file per command; each says its options (`add`) and does its work (`main`)."""
