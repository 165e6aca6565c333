"""Python: run in a fork of a warm interpreter."""

from cloche.languages.language import Language

LANGUAGE = Language(
    name="python",
    source="/sandbox/code/main.py",
    command=("python3",),
    warm=True,
    kernel={"fork": "python"},
    words=frozenset(("numpy", "pandas", "matplotlib", "scipy", "sklearn", "seaborn", "statsmodels", "pyarrow")),
)
