"""The names of the release numbers that travel in every header.

Two numbers to a release, the snapshot before the release itself; how many releases a minor
version has differs:

    16 to 45      3.0.1 to 3.0.15
    46 to 85      3.1.0 to 3.2.9, ten each
    86 to 211     3.3.1 to 3.9.9, nine each
    212 to 611    4.0.0 to 5.9.9, ten each
"""

from typing import Final

_HIGHER: Final = 612


def version_name(number: int) -> str:
    """`V4_9_8` for 409, `V4_9_8_SNAPSHOT` for 408."""
    if number >= _HIGHER:
        return "HIGHER_VERSION"
    if number >= 212:
        release = (number - 212) // 2
        parts = (4 + release // 100, release // 10 % 10, release % 10)
    elif number >= 86:
        release = (number - 86) // 2
        parts = (3, 3 + release // 9, 1 + release % 9)
    elif number >= 46:
        release = (number - 46) // 2
        parts = (3, 1 + release // 10, release % 10)
    elif number >= 16:
        parts = (3, 0, 1 + (number - 16) // 2)
    else:
        return "V3_0_0"
    name = "V" + "_".join(map(str, parts))
    return name if number % 2 else f"{name}_SNAPSHOT"
