"""The remark RocketMQ leaves on some successful replies."""

from typing import Final

PRESET: Final = "not set any response code"
"""Set before a reply is filled and never taken away; clients look at the code alone."""
