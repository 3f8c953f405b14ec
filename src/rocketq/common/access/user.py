"""Users: who may ask at all."""

from dataclasses import dataclass, field
from enum import Enum


class UserType(Enum):
    """A super user may do everything, a normal one what policies allow."""

    SUPER = "Super"
    NORMAL = "Normal"


@dataclass(frozen=True, slots=True)
class User:
    """One user. The password is the key that requests are signed with; it is never printed."""

    name: str
    password: str = field(repr=False)
    type: UserType = UserType.NORMAL
    is_enabled: bool = True

    @property
    def is_super(self) -> bool:
        return self.type is UserType.SUPER
