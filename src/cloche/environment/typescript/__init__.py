"""Makes TypeScript start fast: puts its two compilers on the PATH, and removes the comments from its declarations.

The type checker reads the declarations of the language and of Node again for every program, and two thirds of them are
comments.  Those of Node exist twice, whole and without rare modules; languages/typescript/checker.py chooses.
"""

import re
import shutil
from pathlib import Path

PROGRAMS = {"tsc": "@typescript/*/lib/tsc", "esbuild": "@esbuild/*/bin/esbuild"}
OURS = tuple(Path(__file__).with_name(name) for name in ("essentials.d.ts", "place.js"))  # used by languages/typescript
# Left out of the smaller declarations of Node; a program that names one of these modules or their globals is checked
# against the whole.
RARE = (
    "cluster dgram domain http2 inspector inspector.generated punycode repl sea sqlite test trace_events v8 wasi "
    "web-globals/fetch web-globals/navigator web-globals/storage"
)
_DECLARATIONS = ("@typescript/*/lib", "@types/node", "undici-types")
_NOTE = "// Comments were taken out when this environment was built.\n"
# Strings come first, because they may contain what looks like a comment; so does `/// <reference … />`, which stays.
_COMMENT = re.compile(
    r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`|^[ \t]*///[ \t]*<[^\n]*$)|/\*.*?\*/|//[^\n]*""",
    re.DOTALL | re.MULTILINE,
)


def furnish(env: Path) -> None:
    """Prepare the packages that npm has installed in an environment."""
    modules = env / "lib" / "node_modules"
    for name, pattern in PROGRAMS.items():
        for program in modules.glob(pattern):  # exactly one: npm installs the package for this machine
            program.chmod(0o755)
            (env / "bin" / name).symlink_to(f"../{program.relative_to(env)}")
    share = env / "share" / "typescript"
    share.mkdir(parents=True)
    for path in OURS:
        shutil.copy(path, share)
    for pattern in _DECLARATIONS:
        for folder in modules.glob(pattern):
            for path in folder.rglob("*.d.*ts"):
                path.write_text(_NOTE + without_comments(path.read_text()))
    _copy_without_rare(modules / "@types" / "node", share / "node")


def _copy_without_rare(whole: Path, target: Path) -> None:
    """Copy Node's declarations without rare modules.

    The copy is not below lib/, so that the other packages that these declarations import, also rare, are not found.
    """
    shutil.copytree(whole, target)
    for name in RARE.split():
        (target / f"{name}.d.ts").unlink()
    index = target / "index.d.ts"
    gone = {f'/// <reference path="{name}.d.ts" />' for name in RARE.split()}
    index.write_text("".join(f"{line}\n" for line in index.read_text().splitlines() if line not in gone))


def without_comments(declarations: str) -> str:
    """Remove comments from declarations; references to other files stay."""
    bare = _COMMENT.sub(lambda found: found[1] or ("\n" if "\n" in found[0] else " "), declarations)
    return re.sub(r"[ \t]*\n\s*", "\n", bare).strip() + "\n"
