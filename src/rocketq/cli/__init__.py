"""The `rocketq` command, and the command names people know from RocketMQ.

Modules of the parts are imported by the sub-command that needs them, so that help is instant
and a broker does not wait for what only producers use.
"""


def main() -> None:
    """`rocketq`"""
    from rocketq.cli.app import run

    run()


def mqnamesrv() -> None:
    """`mqnamesrv`: a NameServer, started and reporting as RocketMQ's script does."""
    from rocketq.cli.servers.rocketmq_scripts import mqnamesrv

    mqnamesrv()


def mqbroker() -> None:
    """`mqbroker`: a broker, started and reporting as RocketMQ's script does."""
    from rocketq.cli.servers.rocketmq_scripts import mqbroker

    mqbroker()


def mqcontroller() -> None:
    """`mqcontroller`: a controller, started and reporting as RocketMQ's script does."""
    from rocketq.cli.servers.rocketmq_scripts import mqcontroller

    mqcontroller()


def mqadmin() -> None:
    """`mqadmin`: the administration tool under its known name."""
    from rocketq.cli.servers.rocketmq_scripts import mqadmin

    mqadmin()


def mqshutdown() -> None:
    """`mqshutdown`: asks running brokers or NameServers to stop."""
    from rocketq.cli.servers.shutdown import mqshutdown

    mqshutdown()
