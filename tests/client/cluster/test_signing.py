"""Signed requests, checked against vectors of RocketMQ's own clients."""

from rocketq.client.cluster.signing import RequestSigner, signing_hooks
from rocketq.client.config import ClientConfig
from rocketq.remoting.headers import GetRouteInfo
from rocketq.remoting.wire.command import Command

SIGNER = RequestSigner("rocketmq2", "12345678")


def test_a_request_is_signed_as_java_signs_it() -> None:
    request = Command.request(GetRouteInfo(topic="TopicA"))
    SIGNER.before_request("", request)
    assert request.ext_fields == {
        "topic": "TopicA",
        "AccessKey": "rocketmq2",
        "Signature": "yvZvKMqXR7E4uBCgkiiGE2OZ9Zg=",
    }


def test_the_body_is_signed_too() -> None:
    request = Command.request(GetRouteInfo(topic="TopicA"), b"hello")
    SIGNER.before_request("", request)
    assert request.ext_fields["Signature"] == "CLWlAOdV2SOUQYi+6SjfwmrW+O0="


def test_a_request_sent_again_gets_the_same_signature() -> None:
    request = Command.request(GetRouteInfo(topic="TopicA"))
    SIGNER.before_request("", request)
    first = dict(request.ext_fields)
    SIGNER.before_request("", request)
    assert request.ext_fields == first


def test_a_token_is_part_of_what_is_signed() -> None:
    request = Command.request(GetRouteInfo(topic="TopicA"))
    RequestSigner("rocketmq2", "12345678", "token").before_request("", request)
    assert request.ext_fields["SecurityToken"] == "token"
    assert request.ext_fields["Signature"] != "yvZvKMqXR7E4uBCgkiiGE2OZ9Zg="


def test_only_clients_with_a_key_sign() -> None:
    assert signing_hooks(ClientConfig()) == []
    assert len(signing_hooks(ClientConfig(access_key="a", secret_key="b"))) == 1
