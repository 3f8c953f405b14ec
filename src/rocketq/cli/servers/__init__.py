"""Running the parts: NameServer, broker, controller, proxy and console; all at once: `up`."""
