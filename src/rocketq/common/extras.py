"""Parts that need more than a plain installation."""


def how_to_install(extra: str) -> str:
    """What to type for an extra of pyproject.toml, for the error that somebody reads without it."""
    return f"pip install '.[{extra}]' where rocketq's sources are"
