"""The blocking faces of the asyncio classes."""
