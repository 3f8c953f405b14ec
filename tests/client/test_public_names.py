"""What `rocketq` and `rocketq.aio` offer."""

import ast
import dataclasses
import inspect
import pydoc
import subprocess
import sys
from types import ModuleType
from typing import get_type_hints

import pytest

import rocketq
import rocketq.aio
from rocketq.client.blocking.face import Face
from rocketq.client.config import ClientConfig, ClientOptions
from rocketq.client.consumer.options import (
    LitePullConfig,
    LitePullOptions,
    PullConfig,
    PullOptions,
    PushConfig,
    PushOptions,
    SimpleConfig,
    SimpleOptions,
)
from rocketq.client.errors import InvalidSettings
from rocketq.client.producer.options import ProducerConfig, ProducerOptions
from rocketq.common.language.lazy_names import homes_of

MODULES = [rocketq, rocketq.aio]


@pytest.mark.parametrize("module", MODULES, ids=["rocketq", "aio"])
def test_the_names_for_type_checkers_are_the_names_there_are(module: ModuleType) -> None:
    public = [name for name in dir(module) if not name.startswith("_")]
    assert public == module.__all__ == sorted(dict(homes_of(module.__name__)))
    for name in public:
        assert getattr(module, name) is not None
    namespace: dict[str, object] = {}
    exec(f"from {module.__name__} import *", namespace)
    assert namespace.keys() - {"__builtins__"} == set(public)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Consumer'"):
        rocketq.Consumer  # type: ignore[attr-defined]  # noqa: B018


def test_both_faces_have_the_same_names() -> None:
    assert set(rocketq.__all__) <= set(rocketq.aio.__all__)


def test_compiled_classes_have_signatures() -> None:
    assert list(inspect.signature(rocketq.Message).parameters)[:4] == [
        *("topic", "body", "tags", "keys"),
    ]
    assert "queue_offset" in inspect.signature(rocketq.SendResult).parameters


def test_importing_rocketq_loads_no_sdk() -> None:
    script = "import rocketq, sys; print([m for m in sys.modules if m.startswith('rocketq')])"
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    loaded = set(ast.literal_eval(output))
    assert not loaded & {"rocketq.client.producer.producer", "rocketq.remoting", "rocketq.message"}


@pytest.mark.parametrize(
    "name",
    [
        *("LitePullConsumer", "Producer", "PullConsumer", "PushConsumer", "SimpleConsumer"),
        "TransactionProducer",
    ],
)
def test_a_blocking_class_has_the_methods_of_its_twin(name: str) -> None:
    blocking, twin = getattr(rocketq, name), getattr(rocketq.aio, name)
    assert issubclass(blocking, Face)
    inner = {  # for the SDK itself, or with a form of their own
        *("config", "check_transaction", "inner", "send_half", "settle", "local_transaction"),
        "announced_topics",
    }
    wanted = {attribute for attribute in dir(twin) if not attribute.startswith("_")} - inner
    assert wanted <= set(dir(blocking))
    assert inspect.signature(blocking) == inspect.signature(twin)


@pytest.mark.parametrize(
    ("options", "config"),
    [
        (ClientOptions, ClientConfig),
        (ProducerOptions, ProducerConfig),
        (PushOptions, PushConfig),
        (LitePullOptions, LitePullConfig),
        (PullOptions, PullConfig),
        (SimpleOptions, SimpleConfig),
    ],
    ids=lambda kind: kind.__name__,
)
def test_options_and_configurations_agree(options: type, config: type) -> None:
    assert get_type_hints(options) == get_type_hints(config)
    for field in dataclasses.fields(config):
        assert field.metadata["doc"].endswith("."), f"{field.name} is not explained"


@pytest.mark.parametrize("module", MODULES, ids=["rocketq", "aio"])
@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("LitePullConsumer", LitePullConfig),
        ("Producer", ProducerConfig),
        ("PullConsumer", PullConfig),
        ("SimpleConsumer", SimpleConfig),
        ("PushConsumer", PushConfig),
        ("TransactionProducer", ProducerConfig),
    ],
)
def test_help_lists_every_option_with_a_line(module: ModuleType, name: str, config: type) -> None:
    kind = getattr(module, name)
    parameters = inspect.signature(kind).parameters
    text = pydoc.plain(pydoc.render_doc(kind))
    for field in dataclasses.fields(config):
        assert parameters[field.name].default == field.default
        assert f"{field.name}: {field.metadata['doc'].split()[0]}" in text


def test_an_option_that_is_nearly_right_is_suggested() -> None:
    with pytest.raises(TypeError, match="no option 'send_timeout': did you mean 'send_timeout_s'"):
        rocketq.Producer("p", send_timeout=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="has no option 'topic': did you mean 'topics'"):
        rocketq.aio.PushConsumer("c", topic="orders")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"no option 'colour'\. It has .*namesrv"):
        rocketq.LitePullConsumer("c", colour="red")  # type: ignore[call-arg]


def test_a_misspelt_choice_is_refused_and_seen_by_type_checkers() -> None:
    """mypy complains about ignores that ignore nothing."""
    with pytest.raises(InvalidSettings, match="'last', 'first' or 'timestamp', not 'frist'"):
        rocketq.PushConsumer("c", consume_from="frist")  # type: ignore[arg-type]
    with pytest.raises(InvalidSettings, match="'clustering' or 'broadcasting', not 'cluster'"):
        rocketq.LitePullConsumer("c", message_model="cluster")  # type: ignore[arg-type]
    with pytest.raises(InvalidSettings, match="zlib, lz4 or zstd, not 'gzip'"):
        rocketq.Producer("p", compression="gzip")  # type: ignore[arg-type]
    with pytest.raises(InvalidSettings, match="pull_batch_size must be within 1 and 1024"):
        rocketq.PushConsumer("c", pull_batch_size=5000)
