"""How groups are to take the messages of a topic: by pulling, or by popping.

Kept in memory and in `config/messageRequestMode.json`:

    {"messageRequestModeMap":{"topic":{"group":{"consumerGroup":..,"mode":"PULL","popShareQueueNum":0,"topic":..}}}}
"""

from pathlib import Path
from typing import Final

from rocketq.common import json
from rocketq.common.table_file import TableFile
from rocketq.remoting.bodies.assignment import SetMessageRequestMode
from rocketq.remoting.bodies.offsets import MessageRequestModeWrapper

FILE_NAME: Final = "messageRequestMode.json"


class RequestModes:
    """The table of modes. Changed on request of administrators."""

    def __init__(self, path: Path) -> None:
        self._file = TableFile(path, self._encode)
        self._modes: dict[str, dict[str, SetMessageRequestMode]] = {}

    def load(self) -> None:
        """Read the file, or its backup. Raises when there is one that cannot be read."""
        self._file.load(self._decode)

    async def set(self, mode: SetMessageRequestMode) -> None:
        """Remember a mode; returns when it is on the disk."""
        self._modes.setdefault(mode.topic, {})[mode.consumer_group] = mode
        self._file.save()
        await self._file.saved()

    def adopt(self, copied: MessageRequestModeWrapper) -> None:
        """Be the copy of the master's table."""
        if copied.message_request_mode_map != self._modes:
            self._modes = {
                topic: dict(modes) for topic, modes in copied.message_request_mode_map.items()
            }
            self._file.save()

    def find(self, topic: str, group: str) -> SetMessageRequestMode | None:
        return self._modes.get(topic, {}).get(group)

    def body(self) -> MessageRequestModeWrapper:
        return MessageRequestModeWrapper(message_request_mode_map=self._modes)

    async def close(self) -> None:
        await self._file.close()

    def _encode(self) -> bytes:
        return json.dumps_pretty(self.body().to_json())

    def _decode(self, data: bytes) -> None:
        self._modes = MessageRequestModeWrapper.decode(data).message_request_mode_map
