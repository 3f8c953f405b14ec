"""The SDK's core: asyncio producers and consumers, and blocking faces over them.

Applications import from `rocketq` (blocking) or `rocketq.aio` (asyncio).
"""
