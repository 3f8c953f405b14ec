"""Random expressions: compiled and naive evaluation agree, and no text breaks the parser."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketq.filter import FilterError, SqlFilter
from rocketq.filter.sql import parser
from rocketq.filter.sql.lexer import KEY_WORDS
from tests.filter import sql_reference

names = st.sampled_from(["a", "b", "c"])
texts = st.sampled_from(
    ["", "5", "-5", "05", "5.0", "5.5", "6", "3000000000", "9223372036854775808", " 7 ", "1e3"]
) | st.sampled_from(["7f", "NaN", "Infinity", "-0.0", "true", "TRUE", "false", "it's", "b"])
properties = st.dictionaries(names, texts)
string_literals = texts.map(lambda text: "'" + text.replace("'", "''") + "'")
numbers = st.sampled_from(
    ["0", "5", "6L", "2147483647", "2147483648", "3000000000", "5.5", ".5", "1E3", "5."]
)
literals = string_literals | numbers | st.sampled_from(["TRUE", "FALSE", "NULL"])
words = st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"])
maybe_not = st.sampled_from(["", "NOT "])


def larger(expressions: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operands = expressions | numbers | names
    return st.one_of(
        st.tuples(expressions, st.sampled_from([" AND ", " OR "]), expressions).map("".join),
        st.tuples(operands, st.sampled_from([" = ", " <> "]), operands).map("".join),
        st.tuples(operands, st.sampled_from([" < ", " <= ", " > ", " >= "]), operands).map("".join),
        st.tuples(operands, st.just(" "), maybe_not, st.just("BETWEEN "), operands).flatmap(
            lambda parts: operands.map(lambda high: "".join(parts) + " AND " + high)
        ),
        st.tuples(names, st.just(" "), maybe_not, st.just("IN ("), string_literals).map(
            lambda parts: "".join(parts) + ", 'x')"
        ),
        st.tuples(operands, st.just(" "), maybe_not, words, st.just(" "), string_literals).map(
            "".join
        ),
        st.tuples(expressions, st.sampled_from([" IS NULL", " IS NOT NULL"])).map("".join),
        st.tuples(st.sampled_from(["NOT ", "-", "+", "- "]), expressions).map("".join),
        expressions.map(lambda inner: f"({inner})"),
    )


expressions = st.recursive(names | literals, larger, max_leaves=12)

numeric = names | numbers | numbers.map(lambda number: f"-{number}")
plain_conditions = st.one_of(
    st.tuples(numeric, st.sampled_from([" < ", " <= ", " > ", " >= "]), numeric).map("".join),
    st.tuples(names, st.sampled_from([" = ", " <> "]), numeric | string_literals).map("".join),
    st.tuples(numeric | string_literals, st.sampled_from([" = ", " <> "]), names).map("".join),
    st.tuples(names, st.sampled_from([" = TRUE", " <> FALSE", " IS NULL", ""])).map("".join),
    st.tuples(names, st.just(" "), maybe_not, words, st.just(" "), string_literals).map("".join),
    st.tuples(names, st.just(" "), maybe_not, st.just("IN ('5', "), string_literals).map(
        lambda parts: "".join(parts) + ")"
    ),
    st.tuples(numeric, st.just(" "), maybe_not, st.just("BETWEEN "), names).map(
        lambda parts: "".join(parts) + " AND 5.5"
    ),
)
conditions = st.recursive(
    plain_conditions,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" AND ", " OR "]), inner).map("".join),
        inner.map(lambda condition: f"NOT ({condition})"),
        inner.map(lambda condition: f"({condition}) IS NULL"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}) = ({pair[1]})"),
    ),
    max_leaves=8,
)
soup = st.lists(
    st.sampled_from(sorted(KEY_WORDS))
    | literals
    | names
    | st.sampled_from(["=", "<>", "<", ">=", "(", ")", ",", "+", "-", "--", "/*", "*/", "\n", "#"])
).map(" ".join)


def compiled_unless_refused(text: str) -> SqlFilter | None:
    try:
        return SqlFilter(text)
    except FilterError as error:
        refusal = error
    assert refusal.text == text
    assert 0 <= refusal.position <= len(text)
    return None


@settings(max_examples=300)
@given(expressions, st.lists(properties, min_size=1, max_size=5))
def test_compiled_expressions_agree_with_the_naive_reading(
    text: str, messages: list[dict[str, str]]
) -> None:
    compiled = compiled_unless_refused(text)
    if compiled is None:
        return
    tree = parser.parse(text)
    for message in messages:
        assert compiled.matches_properties(message) is sql_reference.matches(tree, message)


@settings(max_examples=300)
@given(conditions, st.lists(properties, min_size=1, max_size=5))
def test_conditions_that_make_sense_compile_and_agree(
    text: str, messages: list[dict[str, str]]
) -> None:
    compiled = SqlFilter(text)
    tree = parser.parse(text)
    for message in messages:
        assert compiled.matches_properties(message) is sql_reference.matches(tree, message)


@settings(max_examples=300)
@given(soup | st.text() | expressions.flatmap(lambda text: st.permutations(text).map("".join)))
def test_no_text_breaks_the_parser(text: str) -> None:
    compiled = compiled_unless_refused(text)
    if compiled is not None:
        compiled.matches_properties({"a": "5"})


@given(expressions, properties)
def test_whatever_follows_a_whole_expression_changes_nothing(
    text: str, message: dict[str, str]
) -> None:
    compiled = compiled_unless_refused(f"({text})")
    if compiled is None:
        return
    followed = SqlFilter(f"({text}) zzz ) 'open")
    assert followed.matches_properties(message) is compiled.matches_properties(message)
