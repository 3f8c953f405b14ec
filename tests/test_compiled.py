"""The hot modules are compiled, and from the sources that lie beside them.

Without this a module that did not compile, or was edited and not compiled again, would go
unnoticed: the suite would pass on something else than what is in the repository.
"""

import ast
import os
import re
import shutil
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
BUILD_AGAIN = "build again: make build, or python setup.py build_ext --inplace"


def hot_modules() -> list[str]:
    """What setup.py lists."""
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "HOT_MODULES":
            assert node.value is not None
            modules: list[str] = ast.literal_eval(node.value)
            return modules
    raise AssertionError("setup.py has no HOT_MODULES")


def source(module: str, suffix: str) -> Path:
    return SOURCES.joinpath(*module.split(".")).with_suffix(suffix)


def compiled(module: str) -> Path | None:
    places = [source(module, suffix) for suffix in EXTENSION_SUFFIXES]
    return next((place for place in places if place.exists()), None)


def made_of(module: str) -> set[Path]:
    """Its source, its types, and the types of what it uses."""
    found: set[Path] = set()
    todo = [source(module, ".pxd")]
    while todo:
        pxd = todo.pop()
        if pxd.exists() and pxd not in found:
            found.add(pxd)
            used = re.findall(r"^(?:from|cimport) (rocketq[.\w]+)", pxd.read_text(), re.MULTILINE)
            todo += [source(name, ".pxd") for name in used]
    return found | {source(module, ".py")}


needs_compiled_modules = pytest.mark.skipif(
    os.environ.get("ROCKETQ_PURE") == "1"
    or (
        not any(compiled(module) for module in hot_modules())
        and not any(shutil.which(name) for name in (os.environ.get("CC", "cc"), "gcc", "clang"))
    ),
    reason="the suite runs on the sources",
)


@needs_compiled_modules
@pytest.mark.parametrize("module", hot_modules())
def test_a_hot_module_is_compiled_from_its_present_source(module: str) -> None:
    machine_code = compiled(module)
    assert machine_code is not None, f"{module} is not compiled; {BUILD_AGAIN}"
    made = machine_code.stat().st_mtime
    newer = [str(path) for path in sorted(made_of(module)) if path.stat().st_mtime > made]
    assert not newer, f"{module} was compiled before {newer} changed; {BUILD_AGAIN}"


@pytest.mark.parametrize("module", hot_modules())
def test_mypy_reads_the_code_of_a_hot_module(module: str) -> None:
    assert not source(module, ".pyi").exists(), "mypy would read it instead of the code"


@pytest.mark.parametrize("module", hot_modules())
def test_free_lists_are_asked_for_where_cython_honours_it(module: str) -> None:
    pxd = source(module, ".pxd")
    text = pxd.read_text() if pxd.exists() else ""
    assert "freelist" not in text, "it is ignored here: put it on the class in the .py, with cclass"


def test_no_compiled_file_hides_a_source_that_is_not_hot() -> None:
    listed = {compiled(module) for module in hot_modules()}
    stray = [
        path
        for suffix in EXTENSION_SUFFIXES
        for path in SOURCES.rglob("*" + suffix)
        if path not in listed and path.with_name(path.name.split(".")[0] + ".py").exists()
    ]
    assert not stray, "delete these: they run instead of the sources beside them"


DECLARED = re.compile(
    r"(?:@cython\.locals\((?P<typed>[^()]*)\)\s*)?"
    r"^ *cp?def [^\n(]*?(?P<name>\w+)\((?P<given>[^()]*)\)",
    re.MULTILINE,
)


@pytest.mark.parametrize("module", hot_modules())
def test_what_is_counted_in_a_typed_function_has_a_type(module: str) -> None:
    """A sum without one is a Python number, made anew with every addend."""
    types = source(module, ".pxd")
    typed = {
        each["name"]: set(re.findall(r"\w+", f"{each['typed'] or ''} {each['given']}"))
        for each in DECLARED.finditer(types.read_text() if types.exists() else "")
    }
    untyped = [
        f"{function.name}: {node.target.id}"
        for function in ast.walk(ast.parse(source(module, ".py").read_text()))
        if isinstance(function, ast.FunctionDef) and function.name in typed
        for node in ast.walk(function)
        if isinstance(node, ast.AugAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id not in typed[function.name]
    ]
    assert not untyped
