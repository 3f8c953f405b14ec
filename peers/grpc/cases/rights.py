"""Rights, against a system that asks for them: who signs how, and who may what."""

import hashlib
import hmac

import grpc
from tests.proxy.bare_client import Client

from peers.grpc.cases.trial import Case, Trial, check, ending, equal
from rocketq.admin import access
from rocketq.admin.cluster import brokers
from rocketq.proxy.protocol import messages as pb
from rocketq.remoting.bodies.access import PolicyEntry, UserInfo

WHEN = "20260101T000000Z"
SECRET = "secret-of-{}"
FORMS = {"Java": "{}", "Go": "{}//Rocketmq", "C++": "{}/region/service"}


def signed(trial: Trial, user: str, *, secret: str = "", form: str = "{}") -> Client:
    key = secret or SECRET.format(user)
    signature = hmac.digest(key.encode(), WHEN.encode(), hashlib.sha1).hex()
    client = trial.client()
    client.metadata |= {
        "authorization": f"MQv2-HMAC-SHA1 Credential={form.format(user)}, "
        f"SignedHeaders=x-mq-date-time, Signature={signature}",
        "x-mq-date-time": WHEN,
    }
    return client


async def allow(trial: Trial, user: str, *resources: tuple[str, str]) -> None:
    api = trial.system.admin
    for address in await brokers.masters(api, "DefaultCluster"):
        info = UserInfo(username=user, password=SECRET.format(user), user_type="Normal")
        await access.create_user(api, address, info)
        entries = [
            PolicyEntry(resource=resource, actions=[action], decision="Allow")
            for resource, action in resources
        ]
        await access.create_acl(api, address, access.subject_of(user), *entries)


async def rights(trial: Trial) -> None:
    topic, group = await trial.topic(), await trial.group()
    await allow(trial, "sender", (f"Topic:{topic}", "Pub"))
    await allow(trial, "reader", (f"Topic:{topic}", "Sub"), (f"Group:{group}", "Sub"))
    reader = signed(trial, "reader")
    await reader.introduce(reader.consumer_settings(group, topic))
    equal((await reader.receive(topic, group, poll_s=5)).code, pb.MESSAGE_NOT_FOUND)
    for form in FORMS.values():
        equal((await signed(trial, "sender", form=form).send(topic)).status.code, pb.OK)
    forger = trial.client(x_mq_authorization_ak="root")
    strangers = [
        trial.client(),
        signed(trial, "sender", secret="wrong"),
        signed(trial, "nobody"),
        reader,
    ]
    for client in strangers if trial.system.is_java else [*strangers, forger]:
        answer = await client.send(topic)
        equal(answer.status.code, pb.UNAUTHORIZED)
        check(bool(answer.status.message), "no reason")
    sender = signed(trial, "sender")
    equal((await sender.receive(topic, group, poll_s=5)).code, pb.UNAUTHORIZED)
    received = await reader.receive(topic, group, poll_s=5)
    equal(received.code, pb.OK)
    acked = await sender.ack(topic, group, *received.messages)
    equal(acked.status.code, pb.UNAUTHORIZED)
    equal((await reader.ack(topic, group, *received.messages)).status.code, pb.OK)
    stranger = trial.client()
    answers, code = await ending(stranger, stranger.producer_settings(topic))
    equal([each.status.code for each in answers], [pb.UNAUTHORIZED])
    equal(code, grpc.StatusCode.OK)


CASES: dict[str, Case] = {"32-rights": rights}
