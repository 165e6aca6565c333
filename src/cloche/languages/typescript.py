"""TypeScript: cells run in JavaScript's context, after their types are stripped."""

from cloche.languages import javascript
from cloche.languages.language import Language

LANGUAGE = Language(
    name="typescript",
    source="/sandbox/code/main.ts",
    command=(),
    kernel=javascript.LANGUAGE.kernel,
    context="javascript",
)
