"""Dataclasses that are cheap to define behave as the standard ones do."""

import copy
import dataclasses
import pickle
from dataclasses import field

import pytest

from rocketq.common.light_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """No fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Two fields."""

    x: int
    y: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deeper(Point):
    """One more."""

    z: str | None = None


def test_equal_means_the_same_class_and_the_same_values() -> None:
    assert Point(x=1, y=[2]) == Point(x=1, y=[2])
    assert Point(x=1) != Point(x=2)
    assert Deeper(x=1) != Point(x=1)
    assert Point(x=1) != object()
    assert Empty() == Empty()


def test_what_is_equal_has_the_same_hash() -> None:
    assert hash(Empty()) == hash(Empty())
    with pytest.raises(TypeError):
        hash(Point(x=1))  # a list is in it, as with any dataclass


def test_it_is_shown_with_its_fields() -> None:
    assert repr(Deeper(x=1, z="a")) == "Deeper(x=1, y=[], z='a')"
    assert repr(Empty()) == "Empty()"


def test_it_is_a_dataclass_to_everybody_else() -> None:
    assert [each.name for each in dataclasses.fields(Deeper)] == ["x", "y", "z"]
    assert dataclasses.replace(Deeper(x=1), z="b") == Deeper(x=1, z="b")
    assert pickle.loads(pickle.dumps(Deeper(x=1, z="c"))) == Deeper(x=1, z="c")
    assert copy.deepcopy(Point(x=1, y=[3])) == Point(x=1, y=[3])
    assert not hasattr(Point(x=1), "__dict__")


def test_fields_without_a_default_are_wanted_by_name() -> None:
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Point(1)  # type: ignore[call-arg]
