"""What the console says, in English and in Chinese.

English texts are their own keys, so pages read as they look; `t("Topics")` finds the Chinese one.
A test walks over the pages and finds every text that has none.
"""

from typing import Final

from rocketq.console.chinese import CHINESE

LANGUAGES: Final = {"en": "English", "zh": "中文"}


class Texts:
    """Texts of one language."""

    def __init__(self, language: str) -> None:
        self.language = language if language in LANGUAGES else "en"

    def __call__(self, english: str, **values: object) -> str:
        """The text, with `{name}` in it replaced."""
        text = CHINESE.get(english, english) if self.language == "zh" else english
        return text.format(**values) if values else text


def preferred(accept_language: str) -> str:
    """The language that a browser asks for first."""
    first = accept_language.split(",")[0].strip().lower()
    return "zh" if first.startswith("zh") else "en"
