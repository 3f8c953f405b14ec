"""The controller: decides which broker of a name is master, and another when it is gone."""

from rocketq.controller.config import ControllerConfig
from rocketq.controller.server import Controller

__all__ = ["Controller", "ControllerConfig"]
