"""Completion, hover and signatures for Python, inside the sandbox: a question per line in, an answer per line out.

What comes from installed packages is looked up in the packages themselves, which is a matter of milliseconds: they are
imported here, as the person's program will. What the person wrote is read, and never run. (jedi, which reads everything,
takes seconds for pandas.)
"""

import ast
import builtins
import importlib
import importlib.util
import inspect
import json
import keyword
import os
import pkgutil
import re
import signal
import sys

MOST = 400
PATIENCE_S = 180
_MISSING = object()
# What is before the cursor: an expression that ends in a dot and the beginning of a name.
_TAIL = re.compile(r"((?:[\w.]|\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)|\[[^\[\]\n]*\])+)\.(\w*)$")
_WORD = re.compile(r"\w*$")


class Instance:
    """Some object of a class; which one is not known."""

    def __init__(self, kind):
        self.kind = kind


class Elements:
    """A tuple whose elements are known, as plt.subplots() gives it."""

    def __init__(self, *kinds):
        self.kinds = kinds


class Own:
    """Something that the person wrote: a class, a function or a file, by its syntax tree."""

    def __init__(self, tree, path, text):
        self.tree, self.path, self.text = tree, path, text

    def members(self):
        """What is in it, by name."""
        found = {}
        for node in self.tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                found[node.name] = node
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update({one.id: node for one in targets if isinstance(one, ast.Name)})
        if isinstance(self.tree, ast.ClassDef):
            for node in ast.walk(self.tree):
                is_own = (
                    isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
                )
                if is_own:
                    found.setdefault(node.attr, node)
        return found


def file_of(name):
    """A file of the person's that can be imported by this name."""
    for folder in ("/sandbox/code", "/sandbox"):
        for path in (f"{folder}/{name.replace('.', '/')}.py", f"{folder}/{name.replace('.', '/')}/__init__.py"):
            if os.path.isfile(path):
                return path
    return None


def module(name):
    """A package that is installed; a file of the person's is read, since to import it would be to run it."""
    top = name.partition(".")[0]
    if path := file_of(name):
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        return Own(parsed(text, 0), path, text)
    if top not in sys.modules:
        spec = importlib.util.find_spec(top)
        if spec is None or (spec.origin or "").startswith("/sandbox"):
            return _MISSING
    try:
        return importlib.import_module(name)
    except Exception:
        return _MISSING


def parsed(text, line):
    """The syntax tree; when there is a mistake, that of what comes before the cursor, and without its line."""
    lines = text.split("\n")
    for attempt in (text, "\n".join([*lines[: line - 1], "pass", *lines[line:]]), "\n".join(lines[: line - 1])):
        for end in range(3):
            try:
                return ast.parse("\n".join(attempt.split("\n")[: len(attempt.split("\n")) - end]))
            except (SyntaxError, ValueError):
                continue
    return ast.Module([], [])


def known(tree, path="", text=""):
    """What the names in a file stand for, as far as it can be told without running it."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names[node.name] = Own(node, path, text)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found = module(alias.name)
                if alias.asname is None:
                    found = module(alias.name.partition(".")[0])
                names[alias.asname or alias.name.partition(".")[0]] = found
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            source = module(node.module)
            for alias in node.names:
                if source is not _MISSING and alias.name != "*":
                    found = member(source, alias.name)
                    if found is _MISSING:
                        found = module(f"{node.module}.{alias.name}")
                    names[alias.asname or alias.name] = found
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            bind(names, node.targets[0], meant(node.value, names))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            kind = meant(node.annotation, names)
            names[node.target.id] = Instance(kind) if inspect.isclass(kind) else _MISSING
        elif isinstance(node, ast.With):
            for item in node.items:
                if item.optional_vars is not None:
                    bind(names, item.optional_vars, meant(item.context_expr, names))
    return names


def bind(names, target, value):
    if isinstance(target, ast.Name):
        if value is not _MISSING:
            names[target.id] = value
        else:
            names.pop(target.id, None)
    elif isinstance(target, ast.Tuple) and isinstance(value, Elements):
        for one, kind in zip(target.elts, value.kinds, strict=False):
            bind(names, one, kind)


def meant(node, names):
    """What an expression is: an object, an Instance of a class, or not to be told."""
    if isinstance(node, ast.Constant):
        return Instance(type(node.value))
    for kind, plain in (
        (ast.List, list),
        (ast.ListComp, list),
        (ast.Dict, dict),
        (ast.DictComp, dict),
        (ast.Set, set),
        (ast.Tuple, tuple),
        (ast.JoinedStr, str),
    ):
        if isinstance(node, kind):
            return Instance(plain)
    if isinstance(node, ast.Name):
        found = names.get(node.id, _MISSING)
        return getattr(builtins, node.id, _MISSING) if found is _MISSING and node.id not in names else found
    if isinstance(node, ast.Attribute):
        return member(meant(node.value, names), node.attr)
    if isinstance(node, ast.Call):
        return called(meant(node.func, names), node, names)
    if isinstance(node, ast.Subscript):
        return part(meant(node.value, names), node)
    if isinstance(node, ast.BinOp):
        return meant(node.left, names)
    return _MISSING


def member(owner, name):
    if owner is _MISSING or isinstance(owner, Elements):
        return _MISSING
    own = owner.kind if isinstance(owner, Instance) and isinstance(owner.kind, Own) else owner
    if isinstance(own, Own):
        node = own.members().get(name)
        if isinstance(node, ast.Assign):
            return meant(node.value, {})
        return _MISSING if node is None or not hasattr(node, "body") else Own(node, own.path, own.text)
    if not isinstance(owner, Instance):
        return getattr(owner, name, _MISSING)
    found = inspect.getattr_static(owner.kind, name, _MISSING)
    if isinstance(found, property):
        return returned(found.fget, owner.kind)
    accessor = getattr(found, "_accessor", None)  # pandas: df.str, df.dt, df.plot
    if inspect.isclass(accessor):
        return Instance(accessor)
    try:
        return Method(getattr(owner.kind, name), owner.kind)
    except AttributeError:
        return _MISSING


class Method:
    """A function of an object, with the class that it was taken from."""

    def __init__(self, function, kind):
        self.function, self.kind = function, kind


def called(what, node, names):
    if inspect.isclass(what) or (isinstance(what, Own) and isinstance(what.tree, ast.ClassDef)):
        return Instance(what)
    if isinstance(what, Own):
        return _MISSING
    if what is open:
        return Instance(type(sys.stdin))
    function, kind = (what.function, what.kind) if isinstance(what, Method) else (what, None)
    place, name = getattr(function, "__module__", "") or "", getattr(function, "__name__", "")
    if (place, name) == ("matplotlib.pyplot", "subplots"):
        plt = sys.modules["matplotlib"]
        return Elements(Instance(plt.figure.Figure), Instance(plt.axes.Axes))
    found = returned(function, kind)
    if found is _MISSING and place.partition(".")[0] == "numpy" and "numpy" in sys.modules:
        return Instance(sys.modules["numpy"].ndarray)
    return found


def returned(function, kind):
    """What a function says that it returns."""
    told = getattr(function, "__annotations__", {}).get("return", _MISSING)
    if inspect.isclass(told):
        return Instance(told)
    if not isinstance(told, str):
        return _MISSING
    for name in re.split(r"\s*\|\s*", told):
        name = re.sub(r"\[.*", "", name).strip("'\" ")
        if name in ("Self", "typing.Self") and kind is not None:
            return Instance(kind)
        space = getattr(sys.modules.get(getattr(function, "__module__", "")), "__dict__", {})
        found = space.get(name) or getattr(sys.modules.get("pandas"), name, None) or getattr(builtins, name, None)
        if inspect.isclass(found):
            return Instance(found)
    return _MISSING


def part(owner, node):
    if not isinstance(owner, Instance) or isinstance(owner.kind, Own):
        return _MISSING
    place, name = owner.kind.__module__, owner.kind.__name__
    if place.startswith("pandas") and name == "DataFrame":
        is_column = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
        return Instance(sys.modules["pandas"].Series) if is_column else owner
    return owner if owner.kind is str or name in ("Series", "ndarray") else _MISSING


def inside(owner):
    """The names in something."""
    own = object_of(owner)
    return list(own.members()) if isinstance(own, Own) else dir(owner.kind if isinstance(owner, Instance) else owner)


def object_of(owner):
    if isinstance(owner, Method):
        return owner.function
    return owner.kind if isinstance(owner, Instance) else owner


def kind_of(owner, name):
    if isinstance(object_of(owner), Own):
        node = object_of(owner).members().get(name)
        return "class" if isinstance(node, ast.ClassDef) else "function" if hasattr(node, "body") else "property"
    found = inspect.getattr_static(object_of(owner), name, None)
    if inspect.ismodule(found):
        return "module"
    if inspect.isclass(found):
        return "class"
    if isinstance(found, property):
        return "property"
    return "function" if callable(found) or isinstance(found, (staticmethod, classmethod)) else "instance"


def before(asked):
    return asked["text"].split("\n")[asked["line"] - 1][: asked["column"]]


def looked_up(asked, expression):
    """What an expression in the file is."""
    tree = parsed(asked["text"], asked["line"])
    try:
        node = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError:
        return _MISSING
    names = known(tree, asked["path"], asked["text"])
    around = [
        one for one in ast.walk(tree) if isinstance(one, ast.ClassDef) and one.lineno <= asked["line"] <= one.end_lineno
    ]
    if around:
        names["self"] = Instance(Own(around[-1], asked["path"], asked["text"]))
    return meant(node, names)


def complete(asked):
    line = before(asked)
    imported = re.match(r"\s*(?:from\s+([\w.]+)\s+import\s+(?:.*,\s*)?|import\s+(?:.*,\s*)?)(\w*)$", line)
    if imported:
        source, prefix = imported.groups()
        if source:
            found = module(source)
            names = [] if found is _MISSING else inside(found)
        else:
            names = {one.name for one in pkgutil.iter_modules()} | set(sys.stdlib_module_names)
            names |= {file[:-3] for file in os.listdir("/sandbox/code") if file.endswith(".py")}
        return listed(names, prefix, lambda name: "module" if not source else kind_of(found, name))
    tail = _TAIL.search(line)
    if tail:
        owner = looked_up(asked, tail.group(1))
        if owner is _MISSING:
            return []
        return listed(inside(owner), tail.group(2), lambda name: kind_of(owner, name))
    prefix = _WORD.search(line).group()
    if not prefix:
        return []
    tree = parsed(asked["text"], asked["line"])
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - {prefix}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    kinds = {
        node.name: "class" if isinstance(node, ast.ClassDef) else "function"
        for node in ast.walk(tree)
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    }
    kinds |= {name: "module" if inspect.ismodule(found) else "instance" for name, found in known(tree).items()}
    kinds |= {name: "keyword" for name in keyword.kwlist}
    kinds |= {name: kind_of(builtins, name) for name in dir(builtins) if name not in kinds}
    return listed(own | set(kinds), prefix, lambda name: kinds.get(name, "instance"))


def listed(names, prefix, kind):
    low = prefix.lower()
    chosen = sorted(
        name for name in set(names) if name.lower().startswith(low) and (prefix.startswith("_") or name[:1] != "_")
    )
    return [{"name": name, "kind": kind(name), "start": len(prefix)} for name in chosen[:MOST]]


def described(owner):
    target = object_of(owner)
    if isinstance(target, Own):
        return {"signature": written(target), "text": ast.get_docstring(target.tree) or ""}
    name = getattr(target, "__name__", type(target).__name__)
    try:
        signature = f"{'class ' if inspect.isclass(target) else ''}{name}{inspect.signature(target)}"
    except (TypeError, ValueError):
        signature = f"{'module' if inspect.ismodule(target) else type(target).__name__} {name}"
    if isinstance(owner, Instance):
        signature = owner.kind.__qualname__
    return {"signature": signature[:600], "text": (inspect.getdoc(target) or "")[:3000]}


def written(own):
    """The line with which the person began it."""
    node = own.tree
    if isinstance(node, ast.Module):
        return f"module {os.path.basename(own.path)}"
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}"
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"def {node.name}({ast.unparse(node.args)}){result}"


def describe(asked):
    tail = _TAIL.search(before(asked))
    owner = looked_up(asked, tail.group(1)) if tail else _MISSING
    if owner is _MISSING:
        owner = looked_up(asked, asked["name"])
        return [] if owner is _MISSING else [described(owner)]
    found = member(owner, asked["name"])
    return [] if found is _MISSING else [described(found)]


def hover(asked):
    line = asked["text"].split("\n")[asked["line"] - 1]
    end = asked["column"] + len(re.match(r"\w*", line[asked["column"] :]).group())
    found = re.search(r"[\w.]+$", line[:end])
    owner = looked_up(asked, found.group()) if found else _MISSING
    if owner is not _MISSING and owner is not None:
        return [described(owner)]
    return []


def signature(asked):
    line = before(asked)
    opened = re.search(r"([\w.]+)\(([^()]*)$", line)
    owner = looked_up(asked, opened.group(1)) if opened else _MISSING
    if owner is _MISSING:
        return []
    target = object_of(owner)
    if isinstance(target, Own):
        return own_signature(target, opened.group(2))
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return []
    if isinstance(owner, Method) and parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    labels = [str(one)[:80] for one in parameters]
    name = getattr(target, "__name__", opened.group(1))
    text = (inspect.getdoc(target) or "").split("\n\n")[0]
    active = position(opened.group(2), [one.name for one in parameters])
    return [{"label": f"{name}({', '.join(labels)})", "parameters": labels, "active": active, "text": text[:800]}]


def own_signature(own, given):
    node = own.tree
    if isinstance(node, ast.ClassDef):
        node = next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    labels = [ast.unparse(one) for one in node.args.args if one.arg != "self"]
    names = [one.arg for one in node.args.args if one.arg != "self"]
    label = f"{own.tree.name}({', '.join(labels)})"
    return [
        {
            "label": label,
            "parameters": labels,
            "active": position(given, names),
            "text": ast.get_docstring(own.tree) or "",
        }
    ]


def position(given, names):
    """Which parameter is being written."""
    pieces = given.split(",")
    named = re.match(r"\s*(\w+)\s*=", pieces[-1])
    return names.index(named.group(1)) if named and named.group(1) in names else len(pieces) - 1


def definition(asked):
    line = asked["text"].split("\n")[asked["line"] - 1]
    end = asked["column"] + len(re.match(r"\w*", line[asked["column"] :]).group())
    found = re.search(r"[\w.]+$", line[:end])
    owner = object_of(looked_up(asked, found.group())) if found else _MISSING
    if isinstance(owner, Own):
        place = getattr(owner.tree, "lineno", 1)
        return [{"path": owner.path, "line": place, "column": getattr(owner.tree, "col_offset", 0)}]
    name = found.group().rpartition(".")[2] if found else ""
    for node in ast.walk(parsed(asked["text"], asked["line"])):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
            return [{"path": asked["path"], "line": node.lineno, "column": node.col_offset}]
    return []


ANSWERS = {"complete": complete, "describe": describe, "hover": hover, "signature": signature, "definition": definition}


def main():
    signal.alarm(PATIENCE_S)  # while it runs, the sandbox is not idle: whoever asks again starts it again
    for line in sys.stdin:
        signal.alarm(PATIENCE_S)
        asked = json.loads(line)
        told = {"id": asked["id"], "found": []}
        try:
            told["found"] = ANSWERS[asked["kind"]](asked)
        except Exception as problem:  # whatever it stumbles over, the next question gets its answer
            told["problem"] = repr(problem)
        sys.__stdout__.write(json.dumps(told) + "\n")
        sys.__stdout__.flush()


if __name__ == "__main__":
    sys.stdout = sys.stderr  # what packages print when they are imported is no answer
    main()
