"""What an SQL92 expression says about a message's properties.

The tree becomes nested functions, built once per subscription and called with the properties
of each message. They give true, false, or None for null, and raise `EvaluationError` where
RocketMQ fails to compare two values. Only true delivers a message.

All properties are text. Text compared with a number is read as that number's type: a 32-bit
integer, a 64-bit one or a double. So `a > 5` fails on "5.5", and `a > 5.0` does not.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from rocketq.filter.sql.syntax import (
    And,
    Equal,
    In,
    IsNull,
    Literal,
    Long,
    Negate,
    Node,
    Not,
    Or,
    Order,
    Property,
    Search,
    Truth,
    Value,
)

Properties: TypeAlias = Mapping[str, str]
Evaluator: TypeAlias = Callable[[Properties], Value]
_Condition: TypeAlias = Callable[[Properties], bool | None]
_Comparison: TypeAlias = Callable[[Any, Any], bool]


class EvaluationError(Exception):
    """Two values that do not compare. Never leaves this package: the message is passed over."""


def evaluator(node: Node) -> Evaluator:
    """The function that evaluates a tree."""
    match node:
        case Literal(value):
            return lambda properties: value
        case Property(name):
            return lambda properties: properties.get(name)
        case Negate(operand):
            return _negate(evaluator(operand))
        case _:
            return condition(node)


def condition(node: Node) -> _Condition:
    """The function that evaluates a tree whose value is a boolean."""
    match node:
        case Literal(None | True | False as constant):
            return lambda properties: constant
        case Truth(Property(name)):
            # A property is text, and text is not true.
            return lambda properties: False if name in properties else None
        case Not(operand):
            return _not(condition(operand))
        case And(operands):
            return _and([condition(operand) for operand in operands])
        case Or(operands):
            return _or([condition(operand) for operand in operands])
        case IsNull(operand, negated):
            value_of = evaluator(operand)
            return lambda properties: (value_of(properties) is None) is not negated
        case In(Property(name), values, negated):
            return _in(name, values, negated)
        case Search(operand, word, text, negated):
            return _search(evaluator(operand), _SEARCHES[word], text, negated)
        case Equal(Property(name), Literal(value), negated) if value is not None:
            return _property_equal(name, value, negated)
        case Equal(left, right, negated):
            return _equal(evaluator(left), evaluator(right), negated)
        case Order(Property(name), symbol, Literal(value)):
            return _property_order(name, _COMPARISONS[symbol], value)
        case Order(left, symbol, right):
            return _order(evaluator(left), _COMPARISONS[symbol], evaluator(right))
    raise AssertionError(f"not a condition: {node}")


def _negate(value_of: Evaluator) -> Evaluator:
    def negated(properties: Properties) -> Value:
        value = value_of(properties)
        if type(value) is Long:
            return Long(-value)
        if type(value) is int or type(value) is float:
            return -value
        return None

    return negated


def _not(holds: _Condition) -> _Condition:
    def negated(properties: Properties) -> bool | None:
        value = holds(properties)
        return None if value is None else not value

    return negated


def _and(conditions: list[_Condition]) -> _Condition:
    def all_of(properties: Properties) -> bool | None:
        result: bool | None = True
        for holds in conditions:
            value = holds(properties)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return all_of


def _or(conditions: list[_Condition]) -> _Condition:
    def any_of(properties: Properties) -> bool | None:
        result: bool | None = False
        for holds in conditions:
            value = holds(properties)
            if value is True:
                return True
            if value is None:
                result = None
        return result

    return any_of


def _in(name: str, values: frozenset[str], negated: bool) -> _Condition:
    def is_in(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else (text in values) is not negated

    return is_in


_SEARCHES: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def _search(
    value_of: Evaluator, finds: Callable[[str, str], bool], text: str, negated: bool
) -> _Condition:
    def found(properties: Properties) -> bool:
        value = value_of(properties)
        # False, not null, and so for the negated form too.
        if not isinstance(value, str) or not text:
            return False
        return finds(value, text) is not negated

    return found


# Comparisons

_COMPARISONS: Final[dict[str, _Comparison]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _equal(left_of: Evaluator, right_of: Evaluator, negated: bool) -> _Condition:
    def equal(properties: Properties) -> bool | None:
        left = left_of(properties)
        right = right_of(properties)
        if left is None and right is not None:
            return None
        return _are_equal(left, right) is not negated

    return equal


def _property_equal(name: str, value: str | bool | float, negated: bool) -> _Condition:
    """By far the most frequent kind: `_equal` with everything known beforehand decided."""
    if type(value) is str:

        def equal_text(properties: Properties) -> bool | None:
            text = properties.get(name)
            return None if text is None else (text == value) is not negated

        return equal_text

    convert = _CONVERSIONS[type(value)]
    wanted = _comparable(value)

    def equal(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else (convert(text) == wanted) is not negated

    return equal


def _order(left_of: Evaluator, holds: _Comparison, right_of: Evaluator) -> _Condition:
    def ordered(properties: Properties) -> bool | None:
        left = left_of(properties)
        if left is None:
            return None
        right = right_of(properties)
        if right is None:
            return None
        if type(left) is str and type(right) is str:
            return holds(_double(left), _double(right))
        return holds(*_alike(left, right))

    return ordered


def _property_order(name: str, holds: _Comparison, value: Value) -> _Condition:
    """As `_order`, decided beforehand."""
    convert = _CONVERSIONS[type(value)]
    bound = _comparable(value)

    def ordered(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else holds(convert(text), bound)

    return ordered


def _are_equal(left: Value, right: Value) -> bool:
    if left is None or right is None:
        return left is right
    if type(left) is type(right):
        return _comparable(left) == _comparable(right)
    if type(left) is bool:
        if type(right) is str:
            raise EvaluationError("a boolean on the left does not compare with text")
        return False
    if type(right) is bool and type(left) is not str:
        return False
    pair = _alike(left, right)
    return pair[0] == pair[1]


def _alike(left: Value, right: Value) -> tuple[object, object]:
    """Two values of different types, neither null, as values that Python compares."""
    if type(left) is str:
        return _CONVERSIONS[type(right)](left), _comparable(right)
    if type(right) is str:
        return _comparable(left), _CONVERSIONS[type(left)](right)
    if type(left) is float or type(right) is float:
        assert left is not None, "checked by the caller"
        assert right is not None, "checked by the caller"
        return _double_key(float(left)), _double_key(float(right))
    return left, right


def _comparable(value: Value) -> object:
    return _double_key(value) if type(value) is float else value


_INTEGER: Final = re.compile(r"[+-]?\d+")
_DOUBLE: Final = re.compile(
    r"""[+-]? (?: NaN | Infinity
                | (?: [0-9]+ (?: \. [0-9]* )? | \. [0-9]+ ) (?: [eE] [+-]? [0-9]+ )? [fFdD]? )""",
    re.VERBOSE,
)
_HEX_DOUBLE: Final = re.compile(
    r"""([+-]? 0[xX] (?: [0-9a-fA-F]+ \.? | [0-9a-fA-F]* \. [0-9a-fA-F]+ ) [pP] [+-]? [0-9]+)
        [fFdD]?""",
    re.VERBOSE,
)
_TRIMMED: Final = "".join(map(chr, range(33)))


def _int32(text: str) -> int:
    return _integer(text, -(2**31), 2**31 - 1)


def _int64(text: str) -> int:
    return _integer(text, -(2**63), 2**63 - 1)


def _integer(text: str, lowest: int, highest: int) -> int:
    # Zeros may stand in front, but Python converts no more than some thousand digits.
    if _INTEGER.fullmatch(text) is None or len(text) > 4000:
        raise EvaluationError(f"{text!r} is not an integer")
    value = int(text)
    if not lowest <= value <= highest:
        raise EvaluationError(f"{text!r} is out of range")
    return value


def _double(text: str) -> tuple[bool, float, float]:
    """As Java reads a double: blanks around it, a type letter behind it, hexadecimal too."""
    text = text.strip(_TRIMMED)
    if _DOUBLE.fullmatch(text) is not None:
        return _double_key(float(text.rstrip("fFdD") if text[-1] in "fFdD" else text))
    matched = _HEX_DOUBLE.fullmatch(text)
    if matched is not None:
        try:
            return _double_key(float.fromhex(matched.group(1)))
        except OverflowError:
            return _double_key(-math.inf if text[0] == "-" else math.inf)
    raise EvaluationError(f"{text!r} is not a number")


def _boolean(text: str) -> bool:
    return text.lower() == "true"


_CONVERSIONS: Final[dict[type, Callable[[str], object]]] = {
    bool: _boolean,
    int: _int32,
    Long: _int64,
    float: _double,
}
"""How text is read that is compared with a value of some type."""


def _double_key(value: float) -> tuple[bool, float, float]:
    """Java's order of doubles: NaN equals itself and is above all, -0.0 is below 0.0."""
    if value != value:
        return (True, 0.0, 0.0)
    return (False, value, math.copysign(1.0, value))
