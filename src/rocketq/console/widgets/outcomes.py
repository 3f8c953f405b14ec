"""What somebody's click has begun."""

import inspect

from nicegui import ui

from rocketq.common.errors import RocketqError


async def told(outcome: object) -> None:
    """Wait for it, where there is something to wait for; what the cluster refuses is said."""
    try:
        if inspect.isawaitable(outcome):
            await outcome
    except RocketqError as error:
        ui.notify(str(error), type="negative", multi_line=True)
