"""Settings for the whole suite."""

from hypothesis import settings

# How long one example takes says more about the machine's other work than about the code.
settings.register_profile("rocketq", deadline=None)
settings.load_profile("rocketq")
