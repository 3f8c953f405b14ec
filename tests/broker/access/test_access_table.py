"""Every code that a broker answers: who gets in and who does not."""

from pathlib import Path

from rocketq.broker.access import BROKER_RULES
from tests.access import Server
from tests.broker.harness import running_broker


async def test_every_code_is_for_those_who_may(tmp_path: Path) -> None:
    async with running_broker(
        tmp_path,
        authentication_enabled=True,
        authorization_enabled=True,
        init_authentication_user='{"username":"super","password":"super-password"}',
    ) as broker:
        server = Server(broker.client, broker.broker.address, BROKER_RULES)
        await server.make_users()
        codes = broker.broker.served_codes
        assert codes <= BROKER_RULES.keys()
        for code in sorted(codes):
            await server.check(code, "TestCluster")
