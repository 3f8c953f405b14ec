"""Loads the definitions into classes."""

from importlib import resources
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE: Final = "apache.rocketmq.v2"
SERVICE: Final = f"{PACKAGE}.MessagingService"


class Messages:
    """Every message class and every value of every enum, by its name.

    Enum values lie side by side, as they do in the package: `messages.OK`, `messages.FIFO`.
    """

    def __init__(self) -> None:
        files = descriptor_pb2.FileDescriptorSet.FromString(
            resources.files(__package__).joinpath("messaging.binpb").read_bytes()
        )
        pool = descriptor_pool.DescriptorPool()
        for each in files.file:
            pool.Add(each)
        own = next(each for each in files.file if each.package == PACKAGE)
        self._members: dict[str, Any] = {}
        self._code_names: dict[int, str] = {}
        for message in own.message_type:
            descriptor = pool.FindMessageTypeByName(f"{PACKAGE}.{message.name}")
            self._members[message.name] = message_factory.GetMessageClass(descriptor)
        for enum in own.enum_type:
            for value in enum.value:
                self._members[value.name] = value.number
        self._code_names = {
            value.number: value.name
            for enum in own.enum_type
            if enum.name == "Code"
            for value in enum.value
        }
        self.rpcs: dict[str, tuple[Any, Any]] = {
            method.name: (self._class(method.input_type), self._class(method.output_type))
            for method in own.service[0].method
        }
        """Request and response class of each RPC."""

        # As attributes of its own they are found at once.
        self.__dict__.update(self._members)

    def _class(self, type_name: str) -> Any:
        return self._members[type_name.rpartition(".")[2]]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def code_name(self, number: int) -> str:
        return self._code_names.get(number, str(number))


messages: Final = Messages()
