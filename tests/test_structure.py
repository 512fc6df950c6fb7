"""What holds for the source as a whole: sizes, layers, one place for keys, few broad excepts."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "router").rglob("*.py"))
LONGEST_MODULE = 400
LONGEST_FUNCTION = 40
ONE_FILE = {
    ROOT / "router/host/sitehelper.py": 805,
    ROOT / "router/host/imagepull.py": 990,
    ROOT / "router/host/inside.py": 530,
}
"""What runs on a site as one file, without the rest, and how long that may be."""
BROAD_EXCEPTS = {"router/webhook/app.py", "router/agent/pods/reconciler.py"}
"""The Flask error handler, and the agent's step for one Pod."""


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring: what it does should be short, what it promises may be long."""
    docstring = node.body[0]
    own = (docstring.end_lineno or 0) - docstring.lineno + 1 if ast.get_docstring(node) else 0
    return (node.end_lineno or 0) - node.lineno + 1 - own


def test_no_module_is_longer_than_it_may_be() -> None:
    long = {
        str(path): count
        for path in SOURCES
        if (count := len(path.read_text().splitlines())) > ONE_FILE.get(path, LONGEST_MODULE)
    }

    assert long == {}


def test_no_function_is_longer_than_it_may_be() -> None:
    long = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": count
        for path in SOURCES
        for node in _functions(path)
        if (count := _lines_of(node)) > LONGEST_FUNCTION
    }

    assert long == {}


def test_every_module_says_what_it_knows() -> None:
    silent = [str(path) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))]

    assert silent == []


def test_everything_is_caught_only_where_the_design_says() -> None:
    broad = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if _catches_everything(node)
    }

    assert broad == BROAD_EXCEPTS


def _catches_everything(node: ast.AST) -> bool:
    """An except clause without a type or with the widest, alone or among others; or Flask told to catch it."""
    if isinstance(node, ast.ExceptHandler):
        return node.type is None or _names_the_widest(node.type)
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in {"errorhandler", "register_error_handler"}:
        return any(_names_the_widest(argument) for argument in node.args)
    return False


def _names_the_widest(node: ast.expr) -> bool:
    return any(getattr(name, "id", "") in {"Exception", "BaseException"} for name in ast.walk(node))


def test_no_key_is_spelled_outside_names() -> None:
    key = re.compile(r"batchgate\.dev/")
    strays = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value!r}"
        for path in SOURCES
        if path.name != "names.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and key.search(node.value)
        if not _is_docstring(path, node)
    ]

    assert strays == []


def _is_docstring(path: Path, constant: ast.Constant) -> bool:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.lineno == constant.lineno:
            return True
    return False


def test_imports_point_one_way() -> None:
    run = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr


IMPORT_EACH_ALONE = """
import importlib, os, sys
import asyncssh, click, cryptography, flask, google.protobuf, gunicorn.app.base, jinja2, jsonpatch, prometheus_client, pydantic, yaml
good, waiting = set(), {}
for module in sys.argv[1:]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        before = set(sys.modules)
        importlib.import_module(module)
        os.write(writer, " ".join(name for name in sys.modules if name not in before).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as told:
        loaded = {name for name in told.read().split() if name.partition(".")[0] == "router"}
    if os.waitpid(child, 0)[1]:
        print(module)
        continue
    good.add(module)
    waiting[module] = loaded
    for name in [name for name, needed in waiting.items() if needed <= good]:
        importlib.import_module(name)
        del waiting[name]
"""
"""Each module is imported by a process of its own. That inherits modules only if each of them, and of those that it
needs, was found to be good before: they need nothing of this one, so they hide no cycle."""


def test_each_module_can_be_imported_alone() -> None:
    """No module depends on another having been imported before it (a cycle would)."""
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in SOURCES
        if path.name != "__main__.py"
    }
    # What is needed first: Python writes a line for each module when its import ends.
    everything = [sys.executable, "-X", "importtime", "-c", f"import {', '.join(sorted(modules))}"]
    ended = subprocess.run(everything, capture_output=True, text=True, check=False).stderr
    order = [name for line in ended.splitlines() if (name := line.rpartition("|")[2].strip()) in modules]
    order += sorted(modules.difference(order))

    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT_EACH_ALONE, *order], capture_output=True, text=True, check=False
    )

    assert (run.returncode, run.stdout) == (0, ""), run.stderr
