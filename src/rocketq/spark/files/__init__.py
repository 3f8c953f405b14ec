"""Topics straight from the files of brokers: the option `store`."""
