"""How the work of a process shares its one event loop."""
