"""JavaScript, run by Node."""

from cloche.languages.language import Language

LANGUAGE = Language(
    name="javascript",
    source="/sandbox/code/main.js",
    command=("node",),
    kernel={"argv": ["node", "/opt/kernels/javascript.js"]},
)
