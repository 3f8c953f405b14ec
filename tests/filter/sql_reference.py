"""SQL92 once more, naively: the rules of the language word by word, on the same trees.

It shares nothing with `rocketq.filter.sql.evaluation` but the classes of the trees: values
carry their Java type's name, and every case of the specification is one `if`.
"""

import struct
from collections.abc import Mapping
from typing import Any

from rocketq.filter.sql.syntax import (
    And,
    Equal,
    In,
    IsNull,
    Literal,
    Long,
    Negate,
    Not,
    Or,
    Order,
    Property,
    Search,
    Truth,
)

NULL = ("null", None)
TRUE = ("boolean", True)
FALSE = ("boolean", False)


class Failure(Exception):
    """Two values do not compare."""


def evaluate(node: Any, properties: Mapping[str, str]) -> tuple[str, Any]:
    """The value of a tree, with its type."""
    if isinstance(node, Literal):
        return typed(node.value)
    if isinstance(node, Property):
        return ("string", properties[node.name]) if node.name in properties else NULL
    if isinstance(node, Truth):
        return FALSE if node.property.name in properties else NULL
    if isinstance(node, Negate):
        kind, value = evaluate(node.operand, properties)
        return (kind, -value) if kind in ("int", "long", "double") else NULL
    if isinstance(node, Not):
        return negation(evaluate(node.operand, properties))
    if isinstance(node, And):
        left = evaluate(node.operands[0], properties)
        for operand in node.operands[1:]:
            if left == FALSE:
                return FALSE
            right = evaluate(operand, properties)
            if right == FALSE:
                return FALSE
            left = TRUE if left == TRUE and right == TRUE else NULL
        return left
    if isinstance(node, Or):
        left = evaluate(node.operands[0], properties)
        for operand in node.operands[1:]:
            if left == TRUE:
                return TRUE
            right = evaluate(operand, properties)
            if right == TRUE:
                return TRUE
            left = FALSE if left == FALSE and right == FALSE else NULL
        return left
    if isinstance(node, IsNull):
        is_null = evaluate(node.operand, properties) == NULL
        return boolean(is_null != node.negated)
    if isinstance(node, In):
        value_of_property = properties.get(node.property.name)
        if value_of_property is None:
            return NULL
        return boolean((value_of_property in node.values) != node.negated)
    if isinstance(node, Search):
        kind, value = evaluate(node.operand, properties)
        if kind != "string" or node.text == "":
            return FALSE
        found = {
            "CONTAINS": value.find(node.text) >= 0,
            "STARTSWITH": value[: len(node.text)] == node.text,
            "ENDSWITH": len(value) >= len(node.text) and value[-len(node.text) :] == node.text,
        }[node.word]
        return boolean(found != node.negated)
    if isinstance(node, Equal):
        equal = equality(evaluate(node.left, properties), evaluate(node.right, properties))
        return negation(equal) if node.negated else equal
    assert isinstance(node, Order)
    left = evaluate(node.left, properties)
    right = evaluate(node.right, properties)
    if NULL in (left, right):
        return NULL
    if left[0] == right[0] == "string":
        left = ("double", java_double(left[1]))
        right = ("double", java_double(right[1]))
    sign = compare(left, right)
    assert sign is not None, "neither is a boolean"
    return boolean({"<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}[node.operator])


def matches(node: Any, properties: Mapping[str, str]) -> bool:
    try:
        return evaluate(node, properties) == TRUE
    except Failure:
        return False


def typed(value: Any) -> tuple[str, Any]:
    names = {str: "string", bool: "boolean", int: "int", Long: "long", float: "double"}
    return NULL if value is None else (names[type(value)], value)


def boolean(value: bool) -> tuple[str, Any]:
    return TRUE if value else FALSE


def negation(value: tuple[str, Any]) -> tuple[str, Any]:
    return {NULL: NULL, TRUE: FALSE, FALSE: TRUE}[value]


def equality(left: tuple[str, Any], right: tuple[str, Any]) -> tuple[str, Any]:
    if left == NULL and right == NULL:
        return TRUE
    if left == NULL:
        return NULL
    if right == NULL:
        return FALSE
    if left[0] == right[0] == "string":
        return boolean(left[1] == right[1])
    return boolean(compare(left, right) == 0)


def compare(left: tuple[str, Any], right: tuple[str, Any]) -> int | None:
    """The sign of the difference; None for a boolean and something that cannot be one."""
    (left_kind, left_value), (right_kind, right_value) = left, right
    if left_kind == "boolean" and right_kind == "boolean":
        return int(left_value) - int(right_value)
    if left_kind == "boolean":
        if right_kind == "string":
            raise Failure
        return None
    if right_kind == "boolean":
        if left_kind == "string":
            return int(left_value.lower() == "true") - int(right_value)
        return None
    if left_kind == "string":
        left_kind, left_value = right_kind, read(left_value, right_kind)
    if right_kind == "string":
        right_kind, right_value = left_kind, read(right_value, left_kind)
    if "double" in (left_kind, right_kind):
        left_value, right_value = sortable(float(left_value)), sortable(float(right_value))
    return int(left_value > right_value) - int(left_value < right_value)


def read(text: str, kind: str) -> Any:
    if kind == "double":
        return java_double(text)
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or not all(letter in "0123456789" for letter in digits):
        raise Failure
    value = int(text)
    bits = 32 if kind == "int" else 64
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise Failure
    return value


def java_double(text: str) -> float:
    """Enough for what the tests generate: no hexadecimal."""
    text = text.strip(" \t\n")
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned in ("NaN", "Infinity"):
        return float(text)
    if unsigned[-1:] in ("f", "F", "d", "D"):
        text = text[:-1]
    if not text or not all(letter in "0123456789.eE+-" for letter in text):
        raise Failure
    try:
        return float(text)
    except ValueError:
        raise Failure from None


def sortable(value: float) -> int:
    """The bits of a double, in the order Java gives doubles."""
    if value != value:
        return 2**63
    (bits,) = struct.unpack(">q", struct.pack(">d", value))
    return int(bits) if bits >= 0 else -(2**63) - int(bits) - 1
