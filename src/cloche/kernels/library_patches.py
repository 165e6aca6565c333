"""What some libraries are told when a kernel imports them, so that what they show becomes a display."""

from __future__ import annotations

import sys

from cloche.kernels import asyncio_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

INLINE = "module://matplotlib_inline.backend_inline"


def install() -> None:
    """Tell those that are here already, and the others as they come."""
    later = dict(_WORDS)
    sys.meta_path.insert(0, _Listener(later))  # first: one library may import another when it is told
    for name in _WORDS:
        module = sys.modules.get(name)
        if module is not None and name in later:
            _say(later.pop(name), module)


def _say(word: Callable[[Any], None], module: ModuleType) -> None:
    try:
        word(module)
    except Exception:  # another version than we know: it works as it does anywhere
        pass


class _Listener:
    """Stands first among the finders of modules, and finds none itself."""

    def __init__(self, words: dict[str, Callable[[Any], None]]) -> None:
        self._words = words

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        """The spec that the others find, with our word said after the module has run."""
        word = self._words.pop(name, None)
        if word is None:
            return None
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_tell(module: ModuleType) -> None:
                run(module)
                _say(word, module)

            spec.loader.exec_module = run_and_tell  # type: ignore[method-assign]
        return spec


def _matplotlib(module: Any) -> None:
    """Before pyplot: the backend is found when it is first needed, and sets itself up then."""
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
    """Figures in the order in which they were made, not in that in which they were last used."""
    managers = module.Gcf

    class InOrder:
        """The figures that `show` shows."""

        def __getattr__(self, name: str) -> Any:
            return getattr(managers, name)

        @staticmethod
        def get_all_fig_managers() -> list[Any]:
            """Those that wait to be shown."""
            made = [id(figure) for figure in module.show._to_draw]

            def place(manager: Any) -> tuple[int, int]:
                figure = id(manager.canvas.figure)
                return (made.index(figure) if figure in made else -1, manager.num)

            return sorted(managers.get_all_fig_managers(), key=place)

    module.Gcf = InOrder()


def forget_figure(figure: Any) -> None:
    """It was shown as the value of the last expression: not again at the end of the cell."""
    inline = sys.modules.get("matplotlib_inline.config")
    if inline is not None and inline.InlineBackend.instance().close_figures:
        sys.modules["matplotlib.pyplot"].close(figure)


def _pandas(module: Any) -> None:
    """As many columns as in a notebook: imported before there was a shell, it would show what fits into a terminal."""
    from pandas._config import config

    name, wanted = "display.max_columns", 20
    config._registered_options[name] = config._registered_options[name]._replace(defval=wanted)  # for reset_option
    if module.get_option(name) == 0:
        module.set_option(name, wanted)


def _pillow(module: Any) -> None:
    """`Image.show()` displays, whatever viewers the machine has."""
    module.register(module.IPythonViewer, order=0)


class SavedPictures:
    """Are pictures displayed when they are saved, too?  Whoever runs a cell may want that."""

    displayed = False


def _pillow_image(module: Any) -> None:
    """`Image.save("a.png")` displays, where that is wanted; not what Matplotlib saves, which it has displayed."""
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
    """Its own form and HTML; it wants nbformat only to know that a notebook is there."""

    from plotly.io._base_renderers import HtmlRenderer

    class Version:
        __version__ = "5.10.0"

    class Page(HtmlRenderer):  # type: ignore[misc]
        """A piece of HTML that stands alone: it loads the library when it is looked at."""

        def __init__(self) -> None:
            super().__init__(connected=True, full_html=False, global_init=False)

    if module.nbformat is None:
        module.nbformat = Version
    module.renderers["cloche"] = Page()
    module.renderers.default = "plotly_mimetype+cloche"


def _altair(module: Any) -> None:
    """Its own form beside the HTML that it makes by default."""

    def both(spec: dict[str, Any], **metadata: Any) -> Any:
        shown = module.mimetype_renderer(spec, **metadata)
        forms, notes = shown if isinstance(shown, tuple) else (shown, {})
        html = module.html_renderer(spec, **metadata)
        more, _ = html if isinstance(html, tuple) else (html, {})
        told = {mime: value for mime, value in forms.items() if mime != "text/plain"}  # which says that all went wrong
        return {**more, **told}, notes

    module.renderers.register("cloche", both)
    module.renderers.enable("cloche")


def _bokeh(_module: Any) -> None:
    """`show` displays HTML, with or without `output_notebook()`."""
    from bokeh.io.notebook import install_notebook_hook  # type: ignore[import-not-found]
    from bokeh.io.state import curstate  # type: ignore[import-not-found]

    def load(*_: Any) -> None:
        """Nothing to load: what is shown is a page of its own."""

    def show_document(obj: Any, _state: Any, _handle: Any) -> None:
        from bokeh.embed import file_html  # type: ignore[import-not-found]
        from bokeh.resources import CDN  # type: ignore[import-not-found]
        from IPython.display import display

        display({"text/html": file_html(obj, CDN), "text/plain": repr(obj)}, raw=True)

    def show_application(*_: Any) -> None:
        raise RuntimeError("Bokeh applications need a server; show a figure instead")

    install_notebook_hook("jupyter", load, show_document, show_application, overwrite=True)
    curstate().output_notebook("jupyter")


def _tqdm(module: Any) -> None:
    """Without ipywidgets its bars for notebooks are those for terminals."""
    if module.IProgress is None:
        from tqdm.std import tqdm, trange  # type: ignore[import-untyped]

        module.tqdm = module.tqdm_notebook = tqdm
        module.trange = module.tnrange = trange


def _rich(module: Any) -> None:
    """Without ipywidgets, with which it draws in a notebook, what it would draw again and again is shown at its end."""
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
    """`set_trace()` stops where somebody can be asked, as `breakpoint()` does."""
    module.set_trace = sys.breakpointhook


_WORDS: dict[str, Callable[[Any], None]] = {
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
