"""The words of an SQL92 expression.

    key words   NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH, any case
    integer     0, or a digit other than 0 and more digits, then L if one likes
    float       5.5  5.  .5  5E10  5.5E-3
    string      'text', a quote in it doubled
    property    a letter, _ or $, then those or digits; case matters
    symbols     = <> > >= < <= ( ) , + -

White space and comments (`-- to the end of a line`, `/* ... */`) separate words. A line
comment needs its line end; two minus signs without one are two minus signs.
"""

import re
from enum import Enum, auto
from typing import Final, NamedTuple

from rocketq.filter.errors import FilterError
from rocketq.filter.limits import MAX_WORDS

SEARCH_WORDS: Final = ("CONTAINS", "STARTSWITH", "ENDSWITH")
KEY_WORDS: Final = frozenset(
    ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", *SEARCH_WORDS)
)


class Kind(Enum):
    KEY_WORD = auto()
    INTEGER = auto()
    FLOAT = auto()
    STRING = auto()
    PROPERTY = auto()
    SYMBOL = auto()
    END = auto()


class Token(NamedTuple):
    """A word: its kind, its text (key words in capitals, strings without quotes), its place."""

    kind: Kind
    text: str
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind is Kind.END else repr(self.text)


_BLANKS: Final = re.compile(r"[ \t\n\r\f]*")
_LINE_END: Final = re.compile(r"[\r\n]")
# The longest form wins, so that 5.5 is not 5 followed by .5; at a key word that begins a
# longer name the name wins, since the whole name is read before it is looked up.
_TOKEN: Final = re.compile(
    r"""
    (?P<FLOAT>    [0-9]+ \. [0-9]* (?:[eE][+-]?[0-9]+)?
                | \. [0-9]+ (?:[eE][+-]?[0-9]+)?
                | [0-9]+ [eE][+-]?[0-9]+ )
  | (?P<INTEGER>  [1-9][0-9]*[lL]? | 0 )
  | (?P<STRING>   ' (?: [^'] | '' )* ' )
  | (?P<PROPERTY> [A-Za-z_$][A-Za-z_$0-9]* )
  | (?P<SYMBOL>   <> | >= | <= | [=<>(),+-] )
    """,
    re.VERBOSE,
)


class Lexer:
    """Reads one word after the other, no further than it is asked to."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._words = 0
        # Looked for once: looking again at each minus sign would take for ever.
        self._last_line_end = max(text.rfind("\n"), text.rfind("\r"))

    def next(self) -> Token:
        """The next word; once the text is used up, `Kind.END` again and again."""
        start = self._skip()
        self._words += 1
        if self._words > MAX_WORDS:
            raise FilterError(f"the expression has more than {MAX_WORDS} words", self._text, start)
        if start == len(self._text):
            self._at = start
            return Token(Kind.END, "", start)
        match = _TOKEN.match(self._text, start)
        if match is None:
            raise FilterError(f"{self._text[start]!r} begins no word", self._text, start)
        self._at = match.end()
        assert match.lastgroup is not None, "every alternative is a group"
        kind = Kind[match.lastgroup]
        word = match.group()
        if kind is Kind.STRING:
            word = word[1:-1].replace("''", "'")
        elif kind is Kind.PROPERTY and word.upper() in KEY_WORDS:
            return Token(Kind.KEY_WORD, word.upper(), start)
        return Token(kind, word, start)

    def _skip(self) -> int:
        """Where the next word begins, behind white space and comments."""
        text, at = self._text, self._at
        while True:
            blanks = _BLANKS.match(text, at)
            assert blanks is not None, "the pattern matches nothing as well"
            at = blanks.end()
            if text.startswith("--", at) and at < self._last_line_end:
                line_end = _LINE_END.search(text, at)
                assert line_end is not None, "there is one, and it lies behind"
                at = line_end.end()
            elif text.startswith("/*", at) and (end := text.find("*/", at + 2)) >= 0:
                at = end + 2
            else:
                return at
