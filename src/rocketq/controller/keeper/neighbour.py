"""Notices at once that the process at an address is gone.

The system closes the connections of a process that died, and refuses new ones. Whoever is only
cut off is neither: then a lease has to run out.
"""

import asyncio
from typing import Final

from rocketq.remoting.link.client import split_address

_CONNECT_S: Final = 3.0
_PAUSE_S: Final = 1.0


async def process_gone(address: str) -> None:
    """Wait until the process that listens there has surely ended; for others, for ever."""
    host, port = split_address(address)
    was_there = False
    while True:
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await asyncio.open_connection(host, port)
        except ConnectionRefusedError:
            if was_there:
                return
        except (OSError, TimeoutError):
            pass
        else:
            was_there = True
            await _until_closed(reader, writer)
            continue
        await asyncio.sleep(_PAUSE_S)


async def _until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await reader.read(4096):
            pass
    except OSError:
        pass
    finally:
        writer.close()
