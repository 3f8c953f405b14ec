"""Bytes in whatever form they lie in memory."""

Buffer = bytes | bytearray | memoryview
