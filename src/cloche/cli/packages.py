"""`cloche packages`: finds packages that can be installed in sandboxes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from cloche.model.installs import FoundPackage

WITH = "install a package first (polars, httpx>=0.27, npm:lodash@4); can be repeated"


def add(commands: Any, shape: dict[str, Any]) -> None:
    parser = commands.add_parser(
        "packages",
        help="find packages for sandboxes",
        description="Finds packages that `cloche run --with` and sandboxes can install.",
        **shape,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    search = actions.add_parser(
        "search",
        help="search packages by name or by a word of their description",
        description="Searches packages by name and by words of their descriptions, and shows their newest versions.",
        **shape,
    )
    search.add_argument("text", nargs="+", metavar="TEXT", help="a name, or words such as pdf")
    search.add_argument("--npm", action="store_true", help="packages for JavaScript")
    search.add_argument("--json", action="store_true", help="print JSON")
    search.add_argument("--url", metavar="URL", help="ask the server at this address (default CLOCHE_URL)")
    search.add_argument("--api-key", metavar="KEY", help="the key for that server (default CLOCHE_API_KEY)")


def main(arguments: argparse.Namespace) -> int:
    from cloche.blocking.sandbox.sandbox import Sandbox
    from cloche.cli.main import complain

    # No sandbox is made: a search needs only the place that would make it.
    place = Sandbox(url=arguments.url, api_key=arguments.api_key)
    language = "javascript" if arguments.npm else "python"
    found = place.packages.search(" ".join(arguments.text), language=language)
    if arguments.json:
        from json import dumps

        fields = {"items": [each.as_dict() for each in found], "warnings": list(found.warnings)}
        print(dumps(fields, indent=2, ensure_ascii=False))
        return 0
    for text in found.warnings:
        complain(text)
    if not found:
        complain("No package was found.", "Write a shorter part of its name.")
        return 1
    width = max(len(_title(each)) for each in found)
    for each in found:
        print(f"{_title(each):{width}}  {_about(each)}".rstrip())
    return 0


def _title(each: FoundPackage) -> str:
    return f"{each.name} {each.version}".rstrip()


def _about(each: FoundPackage) -> str:
    from cloche.cli.printable import printable

    there = f" (sandboxes have {each.installed})" if each.installed else ""
    return printable(each.summary, 120) + there
