"""The root of every error that this package raises on purpose."""

from typing import ClassVar


class RocketqError(Exception):
    """Everything this package raises on purpose.

    `retriable` says whether the same call may succeed when it is made again, perhaps
    elsewhere: retry loops read it instead of listing classes.
    """

    retriable: ClassVar[bool] = False
