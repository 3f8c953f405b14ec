"""rocketq: Apache RocketMQ's system in Python.

The blocking SDK is here (`from rocketq import Producer, PushConsumer, Message`), its asyncio
twin with the same names in `rocketq.aio`. Names load on first use, so that a broker does not
pay for the SDK nor a producer for the store.
"""

import os

if os.environ.get("ROCKETQ_PURE") == "1":
    # Before any submodule: from here on the sources win over what was compiled from them.
    from rocketq.common import uncompiled

    uncompiled.prefer_sources()

__version__ = "0.1.0"
