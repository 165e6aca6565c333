"""`cloche new`: writes a small project to start from."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def add(commands: Any, shape: dict[str, Any]) -> None:
    parser = commands.add_parser(
        "new",
        help="create a small project from a template",
        description="Writes the files of a template into a folder, which has the template's name unless you name "
        "another.  Existing files are never overwritten.",
        **shape,
    )
    parser.add_argument("template", nargs="?", metavar="TEMPLATE", help="name of the template; see --list")
    parser.add_argument(
        "folder", nargs="?", metavar="FOLDER", help="folder to write to (default: named after the template)"
    )
    parser.add_argument("--list", action="store_true", dest="list_", help="list the templates")
    parser.add_argument("--json", action="store_true", help="print the list, or the template and its files, as JSON")


def main(arguments: argparse.Namespace) -> int:
    from cloche import templates

    if arguments.list_ or (arguments.template is None and arguments.json):
        return _list(arguments.json)
    if arguments.template is None:
        from cloche.errors import InvalidRun

        raise InvalidRun(
            "`cloche new` needs the name of a template.", hint=f"Choose one of {', '.join(templates.names())}."
        )
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
