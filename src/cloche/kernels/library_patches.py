"""Patches for libraries that a kernel imports, so that what they show becomes a display."""

from __future__ import annotations

import sys

from cloche.agent import shelved_modules
from cloche.kernels import asyncio_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

INLINE = "module://matplotlib_inline.backend_inline"


def install() -> None:
    """Patch the libraries that are loaded, and the others when they are imported."""
    later = dict(_PATCHES)
    sys.meta_path.insert(0, _PatchingFinder(later))  # first: a patch may import another library
    _patch_loaded(later)
    shelved_modules.after_return(lambda: _patch_loaded(later))


def _patch_loaded(later: dict[str, Callable[[Any], None]]) -> None:
    for name in _PATCHES:
        module = sys.modules.get(name)
        if module is not None and name in later:
            _apply(later.pop(name), module)


def _apply(patch: Callable[[Any], None], module: ModuleType) -> None:
    try:
        patch(module)
    except Exception:  # an unknown version: it works as it does elsewhere
        pass


class _PatchingFinder:
    """A module finder that finds nothing itself, and patches modules after others have found them."""

    def __init__(self, patches: dict[str, Callable[[Any], None]]) -> None:
        self._patches = patches

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        """Return the spec of the next finder, with the patch applied after the module has run."""
        patch = self._patches.pop(name, None)
        if patch is None:
            return None
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_patch(module: ModuleType) -> None:
                run(module)
                _apply(patch, module)

            spec.loader.exec_module = run_and_patch  # type: ignore[method-assign]
        return spec


def _matplotlib(module: Any) -> None:
    """Choose the inline backend: before pyplot is imported by its name, later by activating it."""
    if "matplotlib.pyplot" not in sys.modules:
        if module.rcParams._get("backend") in ("agg", "Agg"):
            module.rcParams["backend"] = INLINE
        return
    import matplotlib_inline.backend_inline as inline  # type: ignore[import-not-found]
    from IPython.core.getipython import get_ipython

    module.rcParams["backend"] = INLINE
    inline._enable_matplotlib_integration()
    assert get_ipython() is not None


def _inline(module: Any) -> None:
    """Show figures in the order of their creation, not of their last use."""
    managers = module.Gcf

    class InOrder:
        """The figures that `show` shows, in order."""

        def __getattr__(self, name: str) -> Any:
            return getattr(managers, name)

        @staticmethod
        def get_all_fig_managers() -> list[Any]:
            made = [id(figure) for figure in module.show._to_draw]

            def place(manager: Any) -> tuple[int, int]:
                figure = id(manager.canvas.figure)
                return (made.index(figure) if figure in made else -1, manager.num)

            return sorted(managers.get_all_fig_managers(), key=place)

    module.Gcf = InOrder()


def forget_figure(figure: Any) -> None:
    """Close a figure that was shown as the last expression, so that it is not shown again at the cell's end."""
    inline = sys.modules.get("matplotlib_inline.config")
    if inline is not None and inline.InlineBackend.instance().close_figures:
        sys.modules["matplotlib.pyplot"].close(figure)


def _pandas(module: Any) -> None:
    """Show as many columns as in a notebook: pandas was imported without a shell, and would assume a terminal."""
    from pandas._config import config

    name, wanted = "display.max_columns", 20
    config._registered_options[name] = config._registered_options[name]._replace(defval=wanted)  # for reset_option
    if module.get_option(name) == 0:
        module.set_option(name, wanted)


def _pillow(module: Any) -> None:
    """Let `Image.show()` display, whatever viewers are installed."""
    module.register(module.IPythonViewer, order=0)


class SavedPictures:
    """Whether saving a picture also displays it; a cell's request decides."""

    displayed = False


def _pillow_image(module: Any) -> None:
    """Let `Image.save("a.png")` display if the cell wants it; not for Matplotlib, which displays it itself."""
    from functools import wraps

    save = module.Image.save

    @wraps(save)
    def save_and_show(image: Any, fp: Any, *given: Any, **named: Any) -> None:
        save(image, fp, *given, **named)
        by = str(sys._getframe(1).f_globals.get("__name__", ""))
        if SavedPictures.displayed and isinstance(fp, str) and not by.startswith("matplotlib"):
            from IPython.display import display

            display(image)

    module.Image.save = save_and_show


def _plotly(module: Any) -> None:
    """Show Plotly's own form and HTML; it needs nbformat only to detect a notebook."""

    from plotly.io._base_renderers import HtmlRenderer

    class Version:
        __version__ = "5.10.0"

    class Page(HtmlRenderer):  # type: ignore[misc]
        """A stand-alone piece of HTML that loads the library when it is viewed."""

        def __init__(self) -> None:
            super().__init__(connected=True, full_html=False, global_init=False)

    if module.nbformat is None:
        module.nbformat = Version
    module.renderers["cloche"] = Page()
    module.renderers.default = "plotly_mimetype+cloche"


def _altair(module: Any) -> None:
    """Add Altair's own form to its HTML."""

    def both(spec: dict[str, Any], **metadata: Any) -> Any:
        shown = module.mimetype_renderer(spec, **metadata)
        forms, notes = shown if isinstance(shown, tuple) else (shown, {})
        html = module.html_renderer(spec, **metadata)
        more, _ = html if isinstance(html, tuple) else (html, {})
        # Its text says that rendering failed.
        own_forms = {mime: value for mime, value in forms.items() if mime != "text/plain"}
        return {**more, **own_forms}, notes

    module.renderers.register("cloche", both)
    module.renderers.enable("cloche")


def _bokeh(_module: Any) -> None:
    """Let `show` display HTML, with or without `output_notebook()`."""
    from bokeh.io.notebook import install_notebook_hook  # type: ignore[import-not-found]
    from bokeh.io.state import curstate  # type: ignore[import-not-found]

    def load(*_: Any) -> None:
        """Do nothing: each display is a complete page."""

    def show_document(obj: Any, _state: Any, _handle: Any) -> None:
        from bokeh.embed import file_html  # type: ignore[import-not-found]
        from bokeh.resources import CDN  # type: ignore[import-not-found]
        from IPython.display import display

        display({"text/html": file_html(obj, CDN), "text/plain": repr(obj)}, raw=True)

    def show_application(*_: Any) -> None:
        raise RuntimeError("Bokeh applications need a server, which a sandbox does not have; show a figure instead")

    install_notebook_hook("jupyter", load, show_document, show_application, overwrite=True)
    curstate().output_notebook("jupyter")


def _tqdm(module: Any) -> None:
    """Use terminal progress bars in place of notebook bars, which need ipywidgets."""
    if module.IProgress is None:
        from tqdm.std import tqdm, trange  # type: ignore[import-untyped]

        module.tqdm = module.tqdm_notebook = tqdm
        module.trange = module.tnrange = trange


def _rich(module: Any) -> None:
    """Show live displays once, at their end: repeated drawing in a notebook needs ipywidgets."""
    from functools import wraps
    from importlib.util import find_spec

    if find_spec("ipywidgets") is not None:
        return
    refresh, stop = module.Live.refresh, module.Live.stop

    @wraps(refresh)
    def refresh_elsewhere(live: Any) -> None:
        if not live.console.is_jupyter:
            refresh(live)

    @wraps(stop)
    def stop_and_show(live: Any) -> None:
        shows = live.is_started and live.console.is_jupyter and not live.transient
        stop(live)
        if shows:
            live.console.print(live.renderable)

    module.Live.refresh, module.Live.stop = refresh_elsewhere, stop_and_show


def _debugger(module: Any) -> None:
    """Let `set_trace()` behave like `breakpoint()`."""
    module.set_trace = sys.breakpointhook


_PATCHES: dict[str, Callable[[Any], None]] = {
    "asyncio": asyncio_tasks.patch,
    "tqdm.notebook": _tqdm,
    "matplotlib_inline.backend_inline": _inline,
    "matplotlib": _matplotlib,
    "pandas": _pandas,
    "PIL.ImageShow": _pillow,
    "PIL.Image": _pillow_image,
    "plotly.io._renderers": _plotly,
    "altair.vegalite.v6.display": _altair,
    "altair.vegalite.v5.display": _altair,
    "bokeh.io": _bokeh,
    "rich.live": _rich,
    "IPython.core.debugger": _debugger,
}
