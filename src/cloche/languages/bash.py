"""Bash."""

from cloche.languages.language import Language

LANGUAGE = Language(name="bash", source="/sandbox/code/main.sh", command=("bash",), kernel={"fork": "bash"})
