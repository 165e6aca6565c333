"""Ruby; a program that cannot notice starts without RubyGems, which takes most of the start."""

from __future__ import annotations

import os

from cloche.languages import resources
from cloche.languages.diagnostics import by_lines
from cloche.languages.language import Failure, Language, Plan, Preparation, Project
from cloche.languages.source_words import mentions, without_comments
from cloche.languages.toolchain import FoundTools, Toolchain
from cloche.model.result import Diagnostic

# Names that RubyGems adds or changes, that reveal this, or that can call it by a name that is not in the source.  The
# message of a rescued exception contains a suggestion, which comes with RubyGems, too.
_NEEDS_GEMS = frozenset(
    """
    require require_relative load autoload gem gem_original_require Gem Bundler Monitor MonitorMixin RbConfig
    CROSS_COMPILING DidYouMean ErrorHighlight LOADED_FEATURES LOAD_PATH rescue ensure at_exit detailed_message
    full_message eval instance_eval class_eval module_eval instance_exec binding send public_send __send__
    method public_method methods private_methods constants const_get const_defined const_missing defined
    ObjectSpace irb TracePoint set_trace_func caller caller_locations warn message NameError NoMethodError
    KeyError Thread fork exec system spawn popen DATA ruby
    """.split()  # noqa: SIM905
)
_RAISED = r"^.+?:\d+:in [`'].*?': (?P<message>.*?)(?: \((?P<name>[A-Z]\w*(?:::\w+)*)\))?$"
# Since 3.3 the file's name is printed a second time, at the beginning.
_SYNTAX = r"^(?:[^\s:][^:\n]*: )?(?P<file>[^\s:][^:\n]*):(?P<line>\d+): (?P<message>.*)$"


def plan(project: Project, found: FoundTools) -> Plan:
    """Run the entry; Ruby searches a project's `lib` for required files."""
    if project.snippet and found.prepared is not None and not _needs_gems(project.text or ""):
        return Plan(
            run=(found["ruby"], "--disable=gems", f"-r{found.prepared}/lean.rb", project.entry), env=_moved(found)
        )
    options = ("-I", f"{project.root}/lib") if any(name.startswith("lib/") for name in project.files) else ()
    return Plan(run=(found["ruby"], *options, project.entry), env={**_moved(found), **_bundle(project)})


def _needs_gems(text: str) -> bool:
    text = without_comments(text, "#")
    return text.startswith("#!") or any(sign in text for sign in ("`", "$:", '$"', "%x")) or mentions(text, _NEEDS_GEMS)


def prepare(_: FoundTools, folder: str) -> None:
    """Write the file that a program without RubyGems is started with."""
    with open(os.path.join(folder, "lean.rb"), "w", encoding="utf-8") as file:
        file.write(resources.read("languages/ruby/without_gems.rb"))


def _bundle(project: Project) -> dict[str, str]:
    """Return where Bundler finds a project's own gems."""
    if not project.has("Gemfile"):
        return {}
    return {"BUNDLE_GEMFILE": f"{project.root}/Gemfile", "BUNDLE_PATH": f"{project.root}/vendor/bundle"}


def _moved(found: FoundTools) -> dict[str, str]:
    """Return the library paths of a Ruby that sandboxes see at another path than it was built for."""
    if found.mount is None:
        return {}
    home, inside = found.mount
    folder = os.path.join(home, "lib", "ruby")
    places = []
    for version in sorted(os.listdir(folder), reverse=True) if os.path.isdir(folder) else ():
        if version[:1].isdigit():
            native = (name for name in os.listdir(os.path.join(folder, version)) if name.endswith("-linux"))
            places += [f"{inside}/lib/ruby/{version}", *(f"{inside}/lib/ruby/{version}/{name}" for name in native)]
    gems = f"{inside}/lib/ruby/gems/{os.path.basename(places[0])}" if places else ""
    return {"RUBYLIB": ":".join(places), "GEM_PATH": gems, "LD_LIBRARY_PATH": f"{inside}/lib"} if places else {}


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Read the parser's errors."""
    return by_lines(output, _SYNTAX, project)


def explain(stderr: str) -> Failure | None:
    """Find the unrescued exception; the exceptions that caused it are printed after it."""
    from re import match

    lines = stderr.rstrip("\n").split("\n")
    for number in range(len(lines) - 1, -1, -1):
        if "syntax error" in lines[number] and match(_SYNTAX, lines[number]):
            return _broken(lines, number)
        raised = match(_RAISED, lines[number])
        if raised and not lines[number].startswith("\t"):
            break
    else:
        return None
    while number and (start := _before(lines, number)) is not None:
        number = start
    raised = match(_RAISED, lines[number])
    assert raised is not None
    return Failure("runtime", raised["name"] or "RuntimeError", raised["message"], "\n".join(lines[number:]))


def _broken(lines: list[str], number: int) -> Failure:
    """Describe a program that could not be parsed; the message is its first error."""
    from re import match

    while number and "syntax error" in lines[number - 1]:
        number -= 1
    found = match(_SYNTAX, lines[number])
    message = (found["message"] if found else lines[number]).removesuffix(" (SyntaxError)")
    return Failure("syntax", "SyntaxError", message, "\n".join(lines[number:]))


def _before(lines: list[str], number: int) -> int | None:
    """Find where the exception begins that this one caused: directly above it, after its stack trace."""
    from re import match

    start = number - 1
    while start >= 0 and lines[start].startswith(("\tfrom ", "\t ... ")):
        start -= 1
    if start == number - 1:
        return None
    while start >= 0 and not lines[start].startswith("\tfrom "):  # skip the rest of its message, or a marked line
        raised = match(_RAISED, lines[start])
        if raised and raised["name"]:
            return start
        start -= 1
    return None


LANGUAGE = Language(
    name="ruby",
    title="Ruby",
    main="main.rb",
    extensions=(".rb", ".rake", ".ru"),
    aliases=("rb",),
    toolchain=Toolchain(
        programs=("ruby",),
        folders=(
            "$RBENV_ROOT/versions/*/bin",
            "~/.rbenv/versions/*/bin",
            "~/.rvm/rubies/*/bin",
            "/usr/local/rvm/rubies/*/bin",
            "~/.rubies/*/bin",
            "/opt/rubies/*/bin",
            "$ASDF_DATA_DIR/installs/ruby/*/bin",
            "~/.asdf/installs/ruby/*/bin",
            "~/.local/share/mise/installs/ruby/*/bin",
            "/home/linuxbrew/.linuxbrew/opt/ruby/bin",
        ),
        least="2.7",
        apt=("ruby",),
        otherwise="Install Ruby 2.7 or later, with rbenv or from the ruby-lang site.",
    ),
    plan=plan,
    entries=("app.rb", "run.rb"),
    manifests=("Gemfile",),
    diagnose=diagnose,
    explain=explain,
    preparation=Preparation("a fast start for programs that need no gems", prepare),
    ahead="files",
    hello='puts "Hello from Ruby"\n',
)
