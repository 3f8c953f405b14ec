"""Signatures of classes that may be compiled.

A compiled class hides the arguments of its `__init__` from `inspect.signature`, and so from `help`
and from editors. They are read out of its source instead, which lies beside the compiled module,
when somebody asks.

    class Message:
        __signature__ = SourceSignature()
"""

import ast
import inspect
import sys
from pathlib import Path


class SourceSignature:
    """A class attribute: what `inspect.signature` shows."""

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        module = sys.modules[owner.__module__]
        folder, name = Path(module.__file__ or "").parent, owner.__module__.rpartition(".")[2]
        try:
            source = (folder / f"{name}.py").read_text("utf-8")
        except OSError as error:
            raise AttributeError(f"the source of {owner.__qualname__} is not here") from error
        arguments = _init_of(ast.parse(source), owner.__name__)
        del arguments.args[0]  # self
        namespace = dict(vars(module))
        exec(f"def made({ast.unparse(arguments)}) -> None: ...", namespace)
        return inspect.signature(namespace["made"])


def _init_of(source: ast.Module, class_name: str) -> ast.arguments:
    for node in ast.walk(source):
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                    return method.args
    raise AttributeError(f"{class_name} takes no arguments of its own")
