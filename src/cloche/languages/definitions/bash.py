"""Bash."""

from cloche.languages.language import Language
from cloche.languages.toolchain import Toolchain

LANGUAGE = Language(
    name="bash",
    title="Bash",
    main="main.sh",
    extensions=(".sh", ".bash"),
    aliases=("sh", "shell", "shellscript"),
    toolchain=Toolchain(programs=("bash",), apt=("bash",)),
    command=("bash",),
    entries=("run.sh",),
    hello='echo "Hello from Bash"\n',
    kernel={"fork": "bash"},
)
