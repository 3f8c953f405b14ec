"""What brokers and the controller tell each other, as Java writes it."""

import pytest

from rocketq.remoting import headers
from rocketq.remoting.bodies.body import BadBody
from rocketq.remoting.bodies.controller import (
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    EpochEntry,
    EpochEntryCache,
    ReplicaIdentity,
    ReplicasInfo,
    SyncStateSet,
    decode_broker_names,
    encode_broker_names,
)
from rocketq.remoting.bodies.route import BrokerMemberGroup

ELECTED = (
    b'{"brokerMemberGroup":{"brokerAddrs":{1:"10.0.0.1:10911"},"brokerName":"broker-a",'
    b'"cluster":"DefaultCluster"},"syncStateSet":[1]}'
)
REPLICAS = (
    b'{"replicasInfoTable":{"broker-a":{"inSyncReplicas":[{"alive":true,"brokerAddress":'
    b'"10.0.0.1:10911","brokerId":1,"brokerName":"broker-a"}],"masterAddress":"10.0.0.1:10911",'
    b'"masterBrokerId":1,"masterEpoch":1,"notInSyncReplicas":[],"syncStateSetEpoch":3}}}'
)
EPOCHS = (
    b'{"brokerId":1,"brokerName":"broker-a","clusterName":"DefaultCluster","epochList":'
    b'[{"endOffset":9223372036854775807,"epoch":1,"startOffset":0}],"maxOffset":1024}'
)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (
            b'{"syncStateSet":[1,2],"syncStateSetEpoch":3}',
            SyncStateSet(sync_state_set=[1, 2], sync_state_set_epoch=3),
        ),
        (
            ELECTED,
            ElectMasterResponseBody(
                broker_member_group=BrokerMemberGroup(
                    cluster="DefaultCluster",
                    broker_name="broker-a",
                    broker_addrs={1: "10.0.0.1:10911"},
                ),
                sync_state_set=[1],
            ),
        ),
        (b'{"syncStateSet":[1]}', ElectMasterResponseBody(sync_state_set=[1])),
        (
            REPLICAS,
            BrokerReplicasInfo(
                replicas_info_table={
                    "broker-a": ReplicasInfo(
                        master_broker_id=1,
                        master_address="10.0.0.1:10911",
                        master_epoch=1,
                        sync_state_set_epoch=3,
                        in_sync_replicas=[
                            ReplicaIdentity(
                                broker_name="broker-a",
                                broker_id=1,
                                broker_address="10.0.0.1:10911",
                                alive=True,
                            )
                        ],
                    )
                }
            ),
        ),
        (
            EPOCHS,
            EpochEntryCache(
                cluster_name="DefaultCluster",
                broker_name="broker-a",
                broker_id=1,
                epoch_list=[EpochEntry(epoch=1)],
                max_offset=1024,
            ),
        ),
    ],
)
def test_bodies_are_written_and_read_as_java_does(text: bytes, body: object) -> None:
    kind = type(body)
    assert kind.decode(text) == body  # type: ignore[attr-defined]
    assert body.encode() == text  # type: ignore[attr-defined]


def test_broker_names_travel_as_an_array() -> None:
    assert encode_broker_names(["a", "b"]) == b'["a","b"]'
    assert decode_broker_names(b'["a",7,"b"]') == ["a", "b"]
    assert decode_broker_names(b"") == []
    for text in (b"{", b'{"a":1}', b"[" * 10_000):
        with pytest.raises(BadBody):
            decode_broker_names(text)


def test_flags_keep_their_names_on_the_wire() -> None:
    clean = headers.CleanBrokerData(broker_name="a", is_clean_living_broker=True)
    assert clean.to_ext_fields()["isCleanLivingBroker"] == "true"
    leader = headers.GetMetadataInfoResponse(is_leader=True)
    assert leader.to_ext_fields() == {"isLeader": "true"}
