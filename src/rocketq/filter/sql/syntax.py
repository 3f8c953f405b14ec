"""The tree of an SQL92 expression.

`Boolean` nodes give true, false or null. The others give a property's text, a number or a
string; a `Property` may stand where a boolean is wanted, and then becomes a `Truth`.
BETWEEN has no node of its own: it is an AND, or an OR, of two comparisons.
"""

from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias


class Long(int):
    """A 64-bit integer; a plain `int` here is one of 32 bits, as text is converted to either."""

    __slots__ = ()


Value: TypeAlias = str | bool | int | float | None
OrderOperator: TypeAlias = OneOf["<", "<=", ">", ">="]
SearchWord: TypeAlias = OneOf["CONTAINS", "STARTSWITH", "ENDSWITH"]


@dataclass(frozen=True, slots=True)
class Literal:
    """Text, a number, TRUE, FALSE or NULL, as it was written."""

    value: Value

    @property
    def is_boolean(self) -> bool:
        """TRUE, FALSE and NULL are booleans."""
        return self.value is None or isinstance(self.value, bool)

    @property
    def is_number(self) -> bool:
        return isinstance(self.value, int | float) and not self.is_boolean


@dataclass(frozen=True, slots=True)
class Property:
    """The text of a message's property, null where there is none."""

    name: str


@dataclass(frozen=True, slots=True)
class Negate:
    """A number with the other sign; null for anything else."""

    operand: "Node"


@dataclass(frozen=True, slots=True)
class Truth:
    """A property where a boolean is wanted: null where it is missing, and never true."""

    property: Property


@dataclass(frozen=True, slots=True)
class Not:
    operand: "Boolean"


@dataclass(frozen=True, slots=True)
class And:
    operands: "tuple[Boolean, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    operands: "tuple[Boolean, ...]"


@dataclass(frozen=True, slots=True)
class Equal:
    """`=`; negated, `<>`."""

    left: "Node"
    right: "Node"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    left: "Node"
    operator: OrderOperator
    right: "Node"


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: "Node"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    operand: "Node"
    word: SearchWord
    text: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In:
    property: Property
    values: frozenset[str]
    negated: bool = False


Boolean: TypeAlias = Literal | Truth | Not | And | Or | Equal | Order | IsNull | Search | In
Node: TypeAlias = Boolean | Property | Negate
