"""JavaScript, run by Node."""

from cloche.languages.javascript import errors, manifest, modules
from cloche.languages.javascript.heap import heap
from cloche.languages.language import Language, Plan, Project
from cloche.languages.toolchain import FoundTools, Toolchain

TOOLCHAIN = Toolchain(
    programs=("node",),
    folders=(
        "$NVM_BIN",
        "$NVM_DIR/versions/node/*/bin",
        "~/.nvm/versions/node/*/bin",
        "$FNM_DIR/node-versions/*/installation/bin",
        "~/.local/share/fnm/node-versions/*/installation/bin",
        "~/.fnm/node-versions/*/installation/bin",
        "$VOLTA_HOME/tools/image/node/*/bin",
        "~/.volta/tools/image/node/*/bin",
        "~/.asdf/installs/nodejs/*/bin",
        "~/.local/share/mise/installs/node/*/bin",
        "~/.nodenv/versions/*/bin",
        "$N_PREFIX/bin",
        "~/n/bin",
        "~/.local/share/pnpm/nodejs/*/bin",
        "/opt/node*/bin",
        "/usr/local/lib/nodejs/*/bin",
        "/home/linuxbrew/.linuxbrew/opt/node*/bin",
        "/snap/node/current/bin",
    ),
    least="18",
    apt=("nodejs",),
    otherwise="Node's installers and archives are listed on its download page; nvm, fnm and mise install it as well.",
)


def plan(project: Project, found: FoundTools) -> Plan:
    """Run the entry; a snippet that is clearly an ES module is named `.mjs`, because older Nodes decide by the name."""
    source = project.text or ""
    entry = project.entry
    files: tuple[tuple[str, str], ...] = ()
    if project.snippet and entry.endswith(".js") and _is_module(source):
        entry = entry.removesuffix(".js") + ".mjs"
        files = ((entry, source),)
    mapped = "sourceMappingURL=" in source or any(name.endswith(".map") for name in project.files)
    options = ("--enable-source-maps",) if mapped else ()
    return Plan(run=(found["node"], *heap(project), *options, entry), files=files)


def _is_module(source: str) -> bool:
    if not any(word in source for word in ("import", "export", "await")):
        return False
    code = modules.code_of(source)
    if modules.is_module(code):
        return True
    return modules.waits(code) and not any(word in code for word in ("require(", "module.exports", "__dirname"))


LANGUAGE = Language(
    name="javascript",
    title="JavaScript",
    main="main.js",
    extensions=(".js", ".mjs", ".cjs"),
    aliases=("js", "node", "nodejs", "ecmascript"),
    companions=(".json",),
    toolchain=TOOLCHAIN,
    plan=plan,
    entries=("index.js", "main.mjs", "index.mjs", "main.cjs", "index.cjs", "app.js", "server.js"),
    manifests=("package.json",),
    manifest_entries=manifest.manifest_entries,
    diagnose=errors.diagnose,
    explain=errors.explain,
    hello='console.log("Hello from JavaScript");\n',
    ahead="files",
    kernel={"argv": ["node", "/opt/kernels/javascript.js"]},
)
