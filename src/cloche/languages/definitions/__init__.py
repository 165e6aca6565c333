"""One file a language; docs/languages.md says how to write one."""
