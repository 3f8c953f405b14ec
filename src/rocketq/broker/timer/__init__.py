"""Messages of any delay: who waits, who is delivered when, and who was called back."""

from rocketq.broker.timer.timer_messages import TimerMessages

__all__ = ["TimerMessages"]
