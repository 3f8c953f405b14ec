"""From the text of an SQL92 expression to its tree.

    selector   = or                              nothing is required after it
    or         = and { OR and }
    and        = equality { AND equality }
    equality   = comparison { ("=" | "<>") comparison | IS [NOT] NULL }
    comparison = unary { (">" | ">=" | "<" | "<=") unary
                       | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) string
                       | [NOT] BETWEEN unary AND unary
                       | [NOT] IN "(" string { "," string } ")" }
    unary      = ("+" | "-" | NOT) unary | literal | property | "(" or ")"

The grammar and its oddities are RocketMQ's, whose clients rely on them: what follows a whole
expression is ignored, and NOT binds tighter than a comparison.
"""

from typing import Final, NoReturn, cast

from rocketq.filter.errors import FilterError
from rocketq.filter.sql.lexer import SEARCH_WORDS, Kind, Lexer, Token
from rocketq.filter.sql.syntax import (
    And,
    Boolean,
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
    OrderOperator,
    Property,
    Search,
    SearchWord,
    Truth,
)

MAX_DEPTH: Final = 128
"""Deeper trees are refused: parsing and evaluating them would exhaust the stack."""

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_SMALLEST_DOUBLE: Final = 5e-324
_LARGEST_DOUBLE: Final = 1.7976931348623157e308

_ORDER_OPERATORS: Final = frozenset((">", ">=", "<", "<="))


def parse(text: str) -> Boolean:
    """The tree of an expression; `FilterError` if it is none."""
    try:
        return _Parser(text).selector()
    except RecursionError:  # the caller was deep in the stack already
        raise FilterError("the expression is nested too deeply", text, 0) from None


class _Parser:
    """Recursive descent with one word of look-ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lexer = Lexer(text)
        self._token = self._lexer.next()
        self._depth = 0
        self._links = 0

    def selector(self) -> Boolean:
        start = self._token
        return self._as_boolean(self._or(), start)

    def _or(self) -> Node:
        start = self._token
        node = self._and()
        if not self._takes("OR"):
            return node
        operands = [self._as_boolean(node, start)]
        while True:
            start = self._token
            operands.append(self._as_boolean(self._and(), start))
            if not self._takes("OR"):
                return Or(_flattened(Or, operands))

    def _and(self) -> Node:
        start = self._token
        node = self._equality()
        if not self._takes("AND"):
            return node
        operands = [self._as_boolean(node, start)]
        while True:
            start = self._token
            operands.append(self._as_boolean(self._equality(), start))
            if not self._takes("AND"):
                return And(_flattened(And, operands))

    def _equality(self) -> Node:
        start = self._token
        node = self._comparison()
        links = 0
        while True:
            operator = self._token
            if self._takes("=") or self._takes("<>"):
                right_start = self._token
                right = self._comparison()
                self._check_equal(node, start, right, right_start)
                node = Equal(node, right, negated=operator.text == "<>")
            elif self._takes("IS"):
                negated = self._takes("NOT")
                self._expect("NULL")
                node = IsNull(node, negated)
            else:
                return node
            links += 1
            if links > 1:
                self._count_link(operator)

    def _comparison(self) -> Node:
        start = self._token
        node = self._unary()
        links = 0
        while True:
            operator = self._token
            if operator.kind is Kind.SYMBOL and operator.text in _ORDER_OPERATORS:
                self._advance()
                right_start = self._token
                right = self._unary()
                node = self._order(
                    node, start, cast(OrderOperator, operator.text), right, right_start
                )
            elif operator.kind is Kind.KEY_WORD and operator.text in (
                "NOT",
                "BETWEEN",
                "IN",
                *SEARCH_WORDS,
            ):
                node = self._predicate(node, start, negated=self._takes("NOT"))
            else:
                return node
            links += 1
            if links > 1:
                self._count_link(operator)

    def _predicate(self, operand: Node, start: Token, *, negated: bool) -> Node:
        word = self._token
        if self._takes("BETWEEN"):
            return self._between(operand, start, negated=negated)
        if self._takes("IN"):
            return self._in(operand, start, negated=negated)
        if word.kind is Kind.KEY_WORD and word.text in SEARCH_WORDS:
            self._advance()
            return Search(operand, cast(SearchWord, word.text), self._string(), negated)
        return self._fail(f"{word} cannot follow NOT here", word)

    def _between(self, operand: Node, start: Token, *, negated: bool) -> Node:
        low_start = self._token
        low = self._unary()
        self._expect("AND")
        high_start = self._token
        high = self._unary()
        if negated:
            return Or(
                (
                    self._order(operand, start, "<", low, low_start),
                    self._order(operand, start, ">", high, high_start),
                )
            )
        both = And(
            (
                self._order(operand, start, ">=", low, low_start),
                self._order(operand, start, "<=", high, high_start),
            )
        )
        if isinstance(low, Literal) and isinstance(high, Literal):
            assert isinstance(low.value, int | float), "else it would not have compared"
            assert isinstance(high.value, int | float), "else it would not have compared"
            if low.value > high.value:
                self._fail("the lower bound of BETWEEN is above the upper one", low_start)
        return both

    def _in(self, operand: Node, start: Token, *, negated: bool) -> Node:
        if not isinstance(operand, Property):
            self._fail("IN needs a property before it", start)
        self._expect("(")
        values = [self._string()]
        while self._takes(","):
            values.append(self._string())
        self._expect(")")
        return In(operand, frozenset(values), negated)

    def _unary(self) -> Node:
        token = self._token
        if self._depth == MAX_DEPTH:
            self._fail("the expression is nested too deeply", token)
        self._depth += 1
        try:
            if self._takes("+"):
                return self._unary()
            if self._takes("-"):
                return Negate(self._unary())
            if self._takes("NOT"):
                start = self._token
                return Not(self._as_boolean(self._unary(), start))
            if self._takes("("):
                node = self._or()
                self._expect(")")
                return node
        finally:
            self._depth -= 1
        return self._operand(token)

    def _operand(self, token: Token) -> Node:
        self._advance()
        match token.kind, token.text:
            case Kind.PROPERTY, name:
                return Property(name)
            case Kind.STRING, text:
                return Literal(text)
            case Kind.INTEGER, digits:
                return Literal(self._integer(digits, token))
            case Kind.FLOAT, digits:
                return Literal(self._float(digits, token))
            case Kind.KEY_WORD, "TRUE":
                return Literal(True)
            case Kind.KEY_WORD, "FALSE":
                return Literal(False)
            case Kind.KEY_WORD, "NULL":
                return Literal(None)
        return self._fail(f"a value or '(' is expected, not {token}", token)

    def _integer(self, digits: str, token: Token) -> int:
        digits = digits.rstrip("lL")
        # Counted first: nobody should convert a number of a million digits.
        if len(digits) > 19 or (value := int(digits)) > _INT64_MAX:
            return self._fail("the number does not fit into 64 bits", token)
        return value if value <= _INT32_MAX else Long(value)

    def _float(self, digits: str, token: Token) -> float:
        value = float(digits)
        if not _SMALLEST_DOUBLE <= value <= _LARGEST_DOUBLE:
            self._fail("the number is not a positive double", token)
        return value

    # What may be an operand of what.

    def _as_boolean(self, node: Node, start: Token) -> Boolean:
        if isinstance(node, Property):
            return Truth(node)
        if isinstance(node, Negate) or (isinstance(node, Literal) and not node.is_boolean):
            self._fail("this is neither a condition nor a property", start)
        return node

    def _order(
        self,
        left: Node,
        left_start: Token,
        operator: OrderOperator,
        right: Node,
        right_start: Token,
    ) -> Order:
        for operand, start in ((left, left_start), (right, right_start)):
            if isinstance(operand, Property | Negate):
                continue
            if not isinstance(operand, Literal) or not operand.is_number:
                self._fail("only numbers and properties can be ordered", start)
        return Order(left, operator, right)

    def _check_equal(self, left: Node, left_start: Token, right: Node, right_start: Token) -> None:
        for operand, start in ((left, left_start), (right, right_start)):
            if isinstance(operand, Literal) and operand.value is None:
                self._fail("nothing equals NULL, write IS NULL", start)
        match left, right:
            case Literal(bool()), Literal(value) if not isinstance(value, bool):
                self._fail("a boolean can only equal a boolean", right_start)

    # Words.

    def _advance(self) -> None:
        self._token = self._lexer.next()

    def _takes(self, text: str) -> bool:
        """Pass over this key word or symbol, if it comes next."""
        token = self._token
        if token.text == text and token.kind in (Kind.KEY_WORD, Kind.SYMBOL):
            self._advance()
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            self._fail(f"{text!r} is expected, not {self._token}", self._token)

    def _string(self) -> str:
        token = self._token
        if token.kind is not Kind.STRING:
            self._fail(f"a string is expected, not {token}", token)
        self._advance()
        return token.text

    def _count_link(self, token: Token) -> None:
        """Chains such as `a = b = c`, which nobody needs, make a tree deep as well."""
        self._links += 1
        if self._links > MAX_DEPTH:
            self._fail("the expression is chained too long", token)

    def _fail(self, reason: str, token: Token) -> NoReturn:
        raise FilterError(reason, self._text, token.position)


def _flattened(kind: type[And] | type[Or], operands: list[Boolean]) -> tuple[Boolean, ...]:
    """`(a OR b) OR c` means `a OR b OR c`, and takes less of the stack that way."""
    flat: list[Boolean] = []
    for operand in operands:
        if isinstance(operand, kind):
            flat.extend(operand.operands)
        else:
            flat.append(operand)
    return tuple(flat)
