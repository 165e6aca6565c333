"""`cloche env`: builds, lists, removes and examines environments, of this host or of a server."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

    from cloche.blocking.client.environments import ServerEnvironments

_COLUMNS = ("name", "packages", "imports", "size", "age", "state")
_NOTHING = "-"
_FOUND = 1  # the exit code of an audit that has found something


def add(commands: Any, shape: dict[str, Any]) -> None:
    parser = commands.add_parser(
        "env",
        help="build and manage environments: packages and files that sandboxes start with",
        description="Builds and manages environments, of this host or of a server.  A sandbox that starts from an "
        "environment has its packages and files, and has imported its modules already.",
        **shape,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    _add_create(actions, shape)
    _add(actions, shape, "list", "list environments")
    _add(actions, shape, "show", "show an environment with its packages", "ENVIRONMENT")
    _add(actions, shape, "remove", "remove an environment; its sandboxes go on", "ENVIRONMENT")
    _add(actions, shape, "sbom", "print the bill of materials (CycloneDX)", "ENVIRONMENT")
    _add(actions, shape, "audit", "look for malicious and vulnerable packages, without a network", "ENVIRONMENT")
    catalogue = actions.add_parser("catalogue", help="the catalogue for audits and installs on this host", **shape)
    catalogue.add_argument("what", choices=("update",), help="take over the entries of FILE")
    catalogue.add_argument("file", metavar="FILE", help="entries in OSV's format: JSON, a ZIP file or a folder")
    catalogue.add_argument("--json", action="store_true", help="print JSON")


def _add(actions: Any, shape: dict[str, Any], name: str, about: str, placeholder: str = "") -> Any:
    parser = actions.add_parser(name, help=about, description=f"{about[:1].upper()}{about[1:]}.", **shape)
    if placeholder:
        parser.add_argument("name", metavar=placeholder, help="its name, such as report or report:v2")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--url", metavar="URL", help="of the server at this address (default CLOCHE_URL)")
    parser.add_argument("--api-key", metavar="KEY", help="the key for that server (default CLOCHE_API_KEY)")
    return parser


def _add_create(actions: Any, shape: dict[str, Any]) -> None:
    parser = _add(actions, shape, "create", "build an environment, in place of an earlier one", "ENVIRONMENT")
    several: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("-r", "--requirements", metavar="FILE", **several, help="packages of a requirements.txt")
    parser.add_argument(
        "--with", "--python-package", dest="packages", metavar="PACKAGE", **several, help="a package for Python"
    )
    parser.add_argument("--npm", metavar="PACKAGE", **several, help="a package for JavaScript, such as d3 or lodash@4")
    parser.add_argument("--file", metavar="SRC:DEST", **several, help="copy a file or folder in; :DEST is optional")
    parser.add_argument("--setup", metavar="FILE", help="a script that runs once, when packages and files are there")
    parser.add_argument(
        "--import", dest="imports", metavar="MODULES", **several, help="modules to import ahead: polars,plotly"
    )
    parser.add_argument("--set", dest="variables", metavar="K=V", **several, help="set a variable in each sandbox")
    parser.add_argument("--base", metavar="ENVIRONMENT", default="", help="the environment to begin with")
    parser.add_argument(
        "--from-lock", action="store_true", help="take the packages of the earlier environment, in the same versions"
    )
    parser.add_argument("--network", metavar="RULE", **several, help="let the setup reach a host, packages or public")


def main(arguments: argparse.Namespace) -> int:
    action: Callable[[argparse.Namespace], int] = _ACTIONS[arguments.action]
    return action(arguments)


# --- actions


def _create(arguments: argparse.Namespace) -> int:
    from cloche.cli import env_files, network
    from cloche.model.environments import checked_name

    name = checked_name(arguments.name)
    spec = env_files.spec(arguments)
    policy = network.policy(arguments.network, ()) if arguments.network else None
    server = _server(arguments)
    if server is None:
        from cloche.packages import of_this_host

        found = _row(_here().build(name, spec, of_this_host.policy(), policy, _show_line))
    else:
        _follow(server, server.create(name, spec, policy))
        found = server.find(name)
    if arguments.json:
        _print_json(found)
    else:
        print(f"{found['name']}: {_about(found)}")
    return 0


def _follow(server: ServerEnvironments, events: Any) -> None:
    """Show the log of a build on a server, and raise the reason if it fails."""
    from cloche.errors import InvalidRun, SandboxFailed

    try:
        while (event := events.next()) is not None:
            kind, fields = event
            if kind == "log":
                _show_line(str(fields.get("text", "")))
            elif kind == "state" and fields.get("state") == "queued":
                _show_line("Waiting for a free place")
            elif kind == "end":
                error = fields.get("error")
                if error:
                    raise InvalidRun(str(error.get("message")), str(error.get("hint")))
                return
    finally:
        events.close()
    raise SandboxFailed(f"The server at {server.server.url} did not report the end of the build.")


def _list(arguments: argparse.Namespace) -> int:
    server = _server(arguments)
    found = [_row(each) for each in _here().list()] if server is None else server.all()
    if arguments.json:
        _print_json(found)
    elif not found:
        print("There are no environments.  `cloche env create` makes one.", file=sys.stderr)
    else:
        _print_table(found)
    return 0


def _show(arguments: argparse.Namespace) -> int:
    found = _find(arguments)
    if arguments.json:
        _print_json(found)
        return 0
    print(f"{found['name']}: {_about(found)}")
    if found["imports"]:
        print(f"imports: {', '.join(found['imports'])}")
    for each in found["packages"]:
        print(f"  {each['name']} {each['version']}" + (" (JavaScript)" if each["language"] == "javascript" else ""))
    build = found.get("build") or {}
    if build.get("error"):
        from cloche.cli.main import complain

        complain(f"Its newest build failed: {build['error']['message']}", build["error"]["hint"])
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    server = _server(arguments)
    if server is None:
        _here().remove(arguments.name)
    else:
        server.remove(arguments.name)
    if arguments.json:
        _print_json({"removed": arguments.name})
    return 0


def _sbom(arguments: argparse.Namespace) -> int:
    from cloche.packages.bill_of_materials import sbom

    server = _server(arguments)
    _print_json(sbom(_here().find(arguments.name)) if server is None else server.sbom(arguments.name))
    return 0


def _audit(arguments: argparse.Namespace) -> int:
    server = _server(arguments)
    if server is None:
        from time import time

        from cloche.packages import of_this_host
        from cloche.packages.environment_audit import audit

        done = audit(_here().find(arguments.name), of_this_host.shared().catalogue, time())
        found = {**done.as_dict(), "findings": [each.as_dict() for each in done.findings]}
    else:
        found = server.audit(arguments.name)
    if arguments.json:
        _print_json(found)
    else:
        _print_audit(found)
    return _FOUND if found["findings"] else 0


def _catalogue(arguments: argparse.Namespace) -> int:
    from time import time

    from cloche.packages import of_this_host
    from cloche.packages.catalogue import update

    state = update(arguments.file, f"{of_this_host.shared().folder}/catalogue", time())
    if arguments.json:
        _print_json(state.as_dict())
    else:
        print(f"The catalogue has {state.malicious} malicious packages and {state.others} other entries.")
    return 0


_ACTIONS = {
    "create": _create,
    "list": _list,
    "show": _show,
    "remove": _remove,
    "sbom": _sbom,
    "audit": _audit,
    "catalogue": _catalogue,
}


# --- places


def _server(arguments: argparse.Namespace) -> ServerEnvironments | None:
    """The server that the options or CLOCHE_URL name; None for this host."""
    from cloche import settings

    known = settings.load()
    url = arguments.url or known.url
    if not url:
        return None
    from cloche.blocking.client.environments import ServerEnvironments
    from cloche.blocking.client.server import checked_key, server_at

    return ServerEnvironments(server_at(url, checked_key(arguments.api_key or known.api_key or "")))


def _here() -> Any:
    from cloche.packages import of_this_host
    from cloche.packages.environments import Environments

    return Environments(of_this_host.shared())


def _find(arguments: argparse.Namespace) -> dict[str, Any]:
    server = _server(arguments)
    return _row(_here().find(arguments.name)) if server is None else server.find(arguments.name)


def _row(environment: Any) -> dict[str, Any]:
    """An environment of this host, as a server describes one."""
    fields = ("name", "digest", "created", "size")
    return {
        **{name: getattr(environment, name) for name in fields},
        "packages": [each.as_dict() for each in environment.packages],
        "imports": list(environment.imports),
        "shared": environment.shared,
        "build": None,
    }


# --- output


def _show_line(text: str) -> None:
    """Show a line of a build's log, on standard error, since programs have written it."""
    from cloche.cli.printable import printable

    print(printable(text, 500), file=sys.stderr, flush=True)


def _print_json(value: Any) -> None:
    from json import dumps

    print(dumps(value, indent=2))  # in ASCII: what is in names cannot reach the terminal


def _about(found: dict[str, Any]) -> str:
    from cloche.results.values import size

    if found["digest"] is None:
        return f"not built yet ({(found.get('build') or {}).get('state', 'unknown')})"
    count = len(found["packages"])
    return f"{count} package{'' if count == 1 else 's'}, {size(found['size'])}"


def _print_table(found: list[dict[str, Any]]) -> None:
    from time import time

    from cloche.cli.ls import span
    from cloche.cli.printable import printable
    from cloche.results.values import size

    now = time()
    rows = [_COLUMNS]
    for each in found:
        build = each.get("build") or {}
        is_ready = each["digest"] is not None
        rows.append(
            (
                printable(each["name"], 60),
                str(len(each["packages"])) if is_ready else _NOTHING,
                printable(", ".join(each["imports"]), 40) or _NOTHING,
                size(each["size"]) if is_ready else _NOTHING,
                span(now - each["created"]) if is_ready else _NOTHING,
                build["state"] if build.get("state") in ("queued", "building") or not is_ready else "ready",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_audit(found: dict[str, Any]) -> None:
    from cloche.cli.printable import printable

    for each in found["findings"]:
        kind = "MALICIOUS" if each["malicious"] else "weakness"
        print(f"{kind}: {each['name']} {each['version']}: {each['id']} {printable(each['summary'], 200)}")
    age = found["catalogue_age_days"]
    if age is None:
        told = "There is no catalogue but the short list that comes with Cloche: `cloche env catalogue update FILE`."
    else:
        told = f"The catalogue was updated {_days(age)} ago and knows {found['malicious_known']} malicious packages."
    looked_up, count = found["packages"], len(found["findings"])
    were = "1 package was" if looked_up == 1 else f"{looked_up} packages were"
    print(f"{were} looked up, {count or 'nothing'} found. {told}")


def _days(age: float) -> str:
    days = int(age)
    return "less than a day" if days < 1 else f"{days} day{'' if days == 1 else 's'}"
