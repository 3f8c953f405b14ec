"""Every request code of a server, asked by nobody, a stranger, a friend and a super user."""

from collections.abc import Awaitable, Callable, Iterable

from rocketq.common.access import Need
from rocketq.remoting import Command, RemotingClient, RequestTimeout, ResponseCode, next_opaque
from rocketq.remoting.access import RequestSigner, Rules
from rocketq.remoting.bodies.access import AclInfo, Policy, PolicyEntry, UserInfo
from rocketq.remoting.headers.access import CreateAcl, CreateUser, DeleteAcl

Ask = Callable[[Command], Awaitable[Command]]

# What requests name, whatever they are about; enough for every rule to see something.
FIELDS = {
    **dict.fromkeys(("topic", "b", "lmqParentTopic"), "orders"),
    **dict.fromkeys(("consumerGroup", "group", "groupName", "destGroup", "srcGroup"), "billing"),
    **dict.fromkeys(("a", "producerGroup"), "makers"),
    **dict.fromkeys(("clusterName", "cluster"), "DefaultCluster"),
    **dict.fromkeys(("queueId", "maxMsgNums", "pollTime", "bornTime", "timestamp"), "0"),
    **dict.fromkeys(("brokerName", "bname", "username", "filter"), "nobody-of-note"),
    "clientID": "c",
    "offset": "0",
    "subject": "User:nobody-of-note",
}
QUEUE = '{"topic":"orders","brokerName":"b","queueId":0}'
BODY = (
    '{"consumerGroup":"billing","clientId":"c","clientID":"c","topic":"orders","strategyName":"s",'
    '"messageModel":"CLUSTERING","mode":"POP","popShareQueueNum":0,'
    f'"mqSet":[{QUEUE}],'
    '"acks":[{"cg":"billing","consumerGroup":"billing","t":"orders","topic":"orders","r":"0",'
    '"so":0,"q":0,"rq":0,"pt":0,"it":0,"b":""}],'
    '"consumerDataSet":[{"groupName":"billing","consumeType":"CONSUME_PASSIVELY",'
    '"messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
    '"subscriptionDataSet":[{"topic":"orders","subString":"*"}]}],"producerDataSet":[]}'
).encode()


def request_of(code: int, **fields: str) -> Command:
    return Command(code, opaque=next_opaque(), ext_fields=FIELDS | fields, body=BODY)


def signed(request: Command, user: str) -> Command:
    RequestSigner(user, f"{user}-password").before_request("", request)
    return request


class Server:
    """A server with users `super` (super), `friend` (with rights) and `stranger` (without)."""

    def __init__(self, client: RemotingClient, address: str, rules: Rules) -> None:
        self._client = client
        self._address = address
        self._rules = rules

    async def ask(self, request: Command) -> Command | None:
        """The answer; None where the request is held, which means that it was let in."""
        try:
            return await self._client.call(self._address, request, timeout_s=0.3)
        except RequestTimeout:
            return None

    async def as_super(self, request: Command) -> None:
        reply = await self._client.call(self._address, signed(request, "super"), timeout_s=20)
        assert reply.code == ResponseCode.SUCCESS, (request, reply)

    async def make_users(self) -> None:
        for name in ("friend", "stranger"):
            info = UserInfo(password=f"{name}-password", user_type="Normal")
            await self.as_super(Command.request(CreateUser(username=name), info.encode()))

    async def allow(self, user: str, needs: Iterable[Need], cluster: str) -> None:
        """Exactly what is needed and nothing else."""
        await self.as_super(Command.request(DeleteAcl(subject=f"User:{user}")))
        entries = [
            PolicyEntry(
                resource=f"{need.type.value}:{need.name or cluster}",
                actions=[min(action.value for action in need.actions)],
                decision="Allow",
            )
            for need in needs
        ]
        body = AclInfo(policies=[Policy(policy_type="Custom", entries=entries)]).encode()
        await self.as_super(Command.request(CreateAcl(subject=f"User:{user}"), body))

    async def check(self, code: int, cluster: str) -> None:
        """All four for one code."""
        reply = await self.ask(request_of(code))
        assert reply is not None, code
        assert (reply.code, reply.remark) == (16, "username cannot be null."), code

        reply = await self.ask(signed(request_of(code), "stranger"))
        assert reply is not None, code
        assert reply.code == 16, (code, reply)
        assert "no permission" in str(reply.remark), (code, reply)

        needs = list(self._rules[code](request_of(code)))
        assert needs, f"{code} needs nothing"
        await self.allow("friend", needs, cluster or "*")
        for user in ("friend", "super"):
            reply = await self.ask(signed(request_of(code), user))
            assert reply is None or "no permission" not in str(reply.remark), (code, user, reply)
            assert reply is None or "signature" not in str(reply.remark), (code, user, reply)
