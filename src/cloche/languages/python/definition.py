"""Python, run in a fork of a warm interpreter."""

from cloche.languages.language import Language
from cloche.languages.toolchain import Toolchain

LANGUAGE = Language(
    name="python",
    title="Python",
    main="main.py",
    extensions=(".py", ".pyw"),
    aliases=("py", "python3", "ipython"),
    toolchain=Toolchain(programs=("python3",), inside=True),
    command=("python3",),
    entries=("__main__.py", "app.py", "run.py"),
    hello='print("Hello from Python")\n',
    warm=True,
    kernel={"fork": "python"},
    libraries=frozenset(
        (
            *("numpy", "pandas", "matplotlib", "scipy", "sklearn", "seaborn", "statsmodels", "pyarrow"),
            # These import some of the libraries above.
            *("cv2", "fpdf", "h5py", "imageio", "nltk", "numba", "shapely", "skimage", "soundfile"),
            *("textblob", "wordcloud", "xarray", "xgboost"),
        )
    ),
)
