"""`cloche new`: a small project to start from."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def add(commands: Any, shape: dict[str, Any]) -> None:
    """The command's options."""
    parser = commands.add_parser(
        "new",
        help="a small project to start from",
        description="Writes a template's files into a folder, which is named after the template unless another is "
        "given.  A file that is there already is never overwritten.",
        **shape,
    )
    parser.add_argument("template", nargs="?", metavar="TEMPLATE", help="its name; --list has them")
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="where to (default: a folder of the same name)")
    parser.add_argument("--list", action="store_true", dest="list_", help="list the templates")
    parser.add_argument("--json", action="store_true", help="print the list, or the template and its files, as JSON")


def main(arguments: argparse.Namespace) -> int:
    """List the templates, or write one; the exit code."""
    from cloche import templates

    if arguments.list_ or (arguments.template is None and arguments.json):
        return _list(arguments.json)
    if arguments.template is None:
        from cloche.errors import InvalidRun

        raise InvalidRun("Which template?", hint=f"One of {', '.join(templates.names())}.")
    template = templates.find(arguments.template)
    if arguments.json:
        from json import dumps

        print(dumps(template.as_dict(), indent=2, ensure_ascii=False))
        return 0
    folder = arguments.folder or template.name
    for path in templates.write(template, folder):
        print(path)
    return 0


def _list(as_json: bool) -> int:
    from cloche import templates

    known = templates.everything()
    if as_json:
        from json import dumps

        print(dumps([each.summary() for each in known], indent=2, ensure_ascii=False))
        return 0
    width = max(len(each.name) for each in known)
    for each in known:
        print(f"{each.name:{width}}  {each.description}")
    return 0
