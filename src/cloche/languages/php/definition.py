"""PHP; a program that uses none of its extensions starts without them."""

from __future__ import annotations

import os

from cloche.languages import preparation, resources
from cloche.languages.diagnostics import by_lines
from cloche.languages.language import Failure, Language, Plan, Preparation, Project
from cloche.languages.source_words import mentions, names_in, without_comments
from cloche.languages.toolchain import FoundTools, Toolchain
from cloche.model.result import Diagnostic

_NAMES, _SETTINGS = (
    "names",
    "settings",
)  # prepared files: the names that extensions add, and the configuration files that load them
# Names that reveal which extensions there are, or that can call an extension by a name that is not in the source.
_NEEDS_EXTENSIONS = frozenset(
    """
    include include_once require require_once eval assert call_user_func call_user_func_array
    forward_static_call function_exists is_callable class_exists interface_exists enum_exists defined constant
    extension_loaded get_loaded_extensions get_extension_funcs get_defined_functions get_defined_constants
    get_declared_classes get_declared_interfaces phpinfo phpversion php_ini_loaded_file php_ini_scanned_files
    ini_get ini_set ini_get_all dl exec shell_exec system passthru proc_open popen pcntl_exec
    spl_autoload_register reflectionextension reflectionfunction reflectionclass reflectionmethod
    reflectionnamedtype
    """.split()  # noqa: SIM905
)
_COMPUTED = r"`|\$\w+\s*\(|[\]})]\s*\(|new\s+\$|::\s*\$|\$\$|\$\{"  # calls by a name that is computed
_UNCAUGHT = r"^(?:PHP )?Fatal error: +Uncaught (?P<rest>.*)"
_STACK, _LED_TO = "\nStack trace:", "\n\nNext "
# Bounded: a program may print text that would take forever to match.
_PARSE = (
    r"^(?:PHP )?(?:Parse|Fatal) error: {1,2}(?P<message>.{0,3999}) in (?P<file>/\S.{0,999}?) on line (?P<line>\d{1,9})$"
)
_OUT_OF_MEMORY = ("Out of memory", "Allowed memory size of")


def plan(project: Project, found: FoundTools) -> Plan:
    """Run the entry; code without the opening tag gets one on its first line."""
    run = (found.first, project.entry)
    env = {} if _needs_extensions(project, found) else {"PHP_INI_SCAN_DIR": f"{found.prepared}/none"}
    if project.text is None or not _lacks_tag(project.text, project.snippet):
        return Plan(run=run, env=env)
    return Plan(run=run, files=((project.entry, f"<?php {project.text}"),), env=env)


def _needs_extensions(project: Project, found: FoundTools) -> bool:
    """Could the program notice that there are no extensions?"""
    from re import search

    folder = preparation.on_host(found)
    if folder is None or not project.snippet or not project.text:
        return True
    brought = names_in(os.path.join(folder, _NAMES)) if not _is_changed(folder) else frozenset()
    text = without_comments(project.text, "//", "#").lower()
    if not brought or search(_COMPUTED, text):
        return True
    return mentions(text, brought | _NEEDS_EXTENSIONS)


def _is_changed(folder: str) -> bool:
    """Were extensions added or removed since the preparation?"""
    try:
        with open(os.path.join(folder, _SETTINGS), encoding="utf-8") as file:
            settings = file.read()
        return os.stat(settings).st_mtime > os.stat(os.path.join(folder, _NAMES)).st_mtime
    except OSError:
        return True


def prepare(found: FoundTools, folder: str) -> None:
    """Ask PHP for the names that its extensions add: all names it knows, without those it knows on its own."""
    none = os.path.join(folder, "none")
    os.mkdir(none)
    settings, known = _known(found, None)
    if known:  # otherwise its configuration contains more than extensions
        brought = "\n".join(sorted(known - _known(found, none)[1]))
        for name, text in ((_SETTINGS, settings), (_NAMES, brought)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)


def _known(found: FoundTools, settings: str | None) -> tuple[str, set[str]]:
    import subprocess

    env = {**os.environ, **({} if settings is None else {"PHP_INI_SCAN_DIR": settings})}
    command = [found.on_host, "-r", resources.read("languages/php/extension_names.php")]
    listing = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60, check=True)
    place, _, names = listing.stdout.decode().partition("\n")
    return place, set(names.lower().split())


def _lacks_tag(text: str, is_snippet: bool) -> bool:
    """Is the text code, rather than a page that PHP would print as it is?"""
    from re import IGNORECASE, search

    body = text.strip()
    if not body or body.startswith(("<", "#!")) or search(r"<\?(?:php\b|=)", text, IGNORECASE):
        return False
    return is_snippet or body.endswith((";", "}"))


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Read the compiler's errors."""
    return by_lines(output, _PARSE, project)


def explain(stderr: str) -> Failure | None:
    """Find the error that ended the program; PHP writes it to its log, which is standard error."""
    from re import DOTALL, MULTILINE, search

    start = max(stderr.rfind(f"{prefix}{kind} error:  ") for prefix in ("PHP ", "") for kind in ("Fatal", "Parse"))
    text = stderr[max(start, 0) :]
    if any(sign in text for sign in _OUT_OF_MEMORY):
        return Failure("runtime", "OutOfMemoryError", text.strip(), text)
    if start < 0:
        return None
    uncaught = search(_UNCAUGHT, text, DOTALL)
    if uncaught:
        return Failure("runtime", *_raised(uncaught["rest"]), text)
    error = search(_PARSE, text, MULTILINE)
    message = error["message"] if error else text.split("error:", 1)[1].strip().split("\n")[0]
    if "Parse error:" in text:
        return Failure("syntax", "ParseError", message, text)
    return Failure("runtime", "Error", message, text)


def _raised(text: str) -> tuple[str, str]:
    """Parse the class and the message of the last exception, which the earlier ones led to."""
    from re import match

    before, stack, _ = text.rpartition(_STACK)
    raised, place, _ = before.rpartition(_STACK)[2].rpartition(_LED_TO)[2].rpartition(" in ")
    name = match(r"[\w\\]+", raised)
    if not stack or not place or name is None:
        return "Error", text.split("\n")[0]
    return name[0], raised[name.end() :].removeprefix(": ")


LANGUAGE = Language(
    name="php",
    title="PHP",
    main="main.php",
    extensions=(".php", ".phtml"),
    aliases=("php8", "php7"),
    toolchain=Toolchain(
        programs=("php",),
        instead=(("php8.4",), ("php8.3",), ("php8.2",), ("php8.1",)),
        folders=(
            "~/.phpenv/versions/*/bin",
            "~/.phpbrew/php/*/bin",
            "$ASDF_DATA_DIR/installs/php/*/bin",
            "~/.asdf/installs/php/*/bin",
            "~/.local/share/mise/installs/php/*/bin",
            "/opt/php*/bin",
            "/home/linuxbrew/.linuxbrew/opt/php/bin",
        ),
        least="7.4",
        apt=("php-cli",),
        otherwise="Install PHP 7.4 or later with its command line.",
    ),
    plan=plan,
    entries=("index.php", "app.php", "run.php", "public/index.php"),
    manifests=("composer.json",),
    diagnose=diagnose,
    explain=explain,
    preparation=Preparation("a quick start for programs that need no extensions", prepare),
    ahead="files",
    hello='<?php\necho "Hello from PHP\\n";\n',
)
