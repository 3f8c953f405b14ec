"""The mqadmin invocations that are compared, in the order in which they are run.

`COMMANDS` need one master, `SET_COMMANDS` a controller and two brokers of one name: those about
controllers and copies, about users and policies. Left out is what does not exist here: the broker
container, RocksDB, static topics, lite topics.

$BROKER, $NAMESRV and $FOLDER are filled in, and $CONTROLLER and $SLAVE of a set; so is what an
earlier command printed ($SENT).
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

# Commands that go on for ever print for so long.
LASTS_MS = {"clusterRT": 9_000, "startMonitoring": 3_000}


@dataclass(frozen=True, slots=True)
class Invocation:
    """One command line."""

    command: str
    words: tuple[str, ...]
    finds: Mapping[str, str] = field(default_factory=dict)
    """Name -> expression whose first group in the output later commands can use."""
    own: bool = False
    """Our tool prints something else on purpose: docs/compatibility.md says what and why."""

    def found_in(self, output: str) -> dict[str, str]:
        matches = {name: re.search(pattern, output) for name, pattern in self.finds.items()}
        return {name: match[1] for name, match in matches.items() if match}


def _run(line: str, *, own: bool = False, **finds: str) -> Invocation:
    command, *words = shlex.split(line)
    return Invocation(command, tuple(words), finds, own)


_ID = r"([0-9A-F]{32})"

COMMANDS = [
    _run("updateTopic -t AdmTopic -b $BROKER -r 4 -w 4 -a +message.type=NORMAL"),
    _run("updateTopic -t AdmTopic2 -c DefaultCluster -r 2 -w 2"),
    _run("updateTopic -t AdmOrder -b $BROKER -r 2 -w 2 -o true", own=True),
    _run("updateTopic -t SCHEDULE_TOPIC_XXXX -b $BROKER"),
    _run("updateTopicList -f $FOLDER/topics.json -b $BROKER"),
    _run("topicList"),
    _run("topicList -c"),
    _run("topicRoute -t AdmTopic"),
    _run("topicRoute -t AdmTopic -l"),
    _run("topicRoute -t NoSuchTopic"),
    _run("topicClusterList -t AdmTopic"),
    _run("updateSubGroup -g AdmGroup -b $BROKER"),
    _run("updateSubGroup -g AdmGroup2 -c DefaultCluster -r 5 -o true"),
    _run("updateSubGroupList -f $FOLDER/groups.json -b $BROKER"),
    _run(
        "sendMessage -t AdmTopic -p 'hello body' -k key1 -c TagA -b broker-a -i 0",
        SENT=rf"SEND_OK\s+{_ID}",
    ),
    _run("checkMsgSendRT -t AdmTopic2 -a 4 -s 64"),
    _run("sendMsgStatus -b broker-a -c 3"),
    _run("topicStatus -t LiveTopic"),
    _run("consumeMessage -t AdmTopic"),
    _run("consumeMessage -t AdmTopic -c 4", own=True),
    _run("consumeMessage -t AdmTopic -b broker-a -i 0 -o 0 -c 2"),
    _run("printMsg -t LiveTopic"),
    _run("printMsgByQueue -t AdmTopic -a broker-a -i 0 -p true -d true -f true"),
    _run("queryMsgByKey -t AdmTopic -k key1"),
    _run("queryMsgByUniqueKey -t AdmTopic -i $SENT"),
    _run("queryMsgByOffset -t AdmTopic -b broker-a -i 0 -o 0", STORED=rf"OffsetID:\s+{_ID}"),
    _run("queryMsgById -t AdmTopic -i $STORED"),
    _run("queryMsgById -t AdmTopic -i $SENT"),
    _run("queryMsgTraceById -i $TRACED"),
    _run("queryCq -t LiveTopic -q 1 -i 0 -c 3 -b $BROKER"),
    _run("queryCq -t LiveTopic -q 1 -i 0 -c 1 -b $BROKER -g LiveGroup"),
    _run("clusterList"),
    _run("clusterList -m"),
    _run("brokerStatus -b $BROKER"),
    _run("brokerStatus -c DefaultCluster"),
    _run("updateBrokerConfig -b $BROKER -k transactionCheckMax -v 12"),
    _run("updateBrokerConfig -b $BROKER -k configBlackList -v x"),
    _run("getBrokerConfig -b $BROKER"),
    _run("consumerProgress"),
    _run("consumerProgress -g LiveGroup"),
    _run("consumerProgress -g LiveGroup -s true"),
    _run("consumerProgress -g AdmGroup"),
    _run("consumerConnection -g LiveGroup", CLIENT=r"(\S+@live-consumer)"),
    _run("consumerConnection -g AdmGroup"),
    _run("consumerStatus -g LiveGroup"),
    _run("consumerStatus -g LiveGroup -i $CLIENT"),
    _run("queryMsgById -t AdmTopic -i $STORED -g LiveGroup -d $CLIENT"),
    _run("producerConnection -g LiveProducer -t LiveTopic"),
    _run("producer -b $BROKER"),
    _run("brokerConsumeStats -b $BROKER"),
    _run("getConsumerConfig -g LiveGroup"),
    _run("resetOffsetByTime -g AdmGroup -t AdmTopic -s now"),
    _run("cloneGroupOffset -s LiveGroup -d AdmGroup2 -t LiveTopic"),
    _run("resetOffsetByTime -g LiveGroup -t LiveTopic -s now -b $BROKER -q 0 -o 1"),
    _run("resetOffsetByTime -g LiveGroup -t LiveTopic -s 0"),
    _run("skipAccumulatedMessage -g LiveGroup -t LiveTopic"),
    _run("statsAll"),
    _run("statsAll -t LiveTopic"),
    _run("allocateMQ -t AdmTopic -i 10.0.0.1,10.0.0.2"),
    _run("getColdDataFlowCtrInfo -b $BROKER"),
    _run("updateColdDataFlowCtrGroupConfig -b $BROKER -g AdmGroup -v 1000"),
    _run("removeColdDataFlowCtrGroupConfig -b $BROKER -g AdmGroup"),
    _run("setCommitLogReadAheadMode -b $BROKER -m 1"),
    _run("cleanExpiredCQ -b $BROKER"),
    _run("cleanUnusedTopic -b $BROKER"),
    _run("deleteExpiredCommitLog -b $BROKER"),
    _run("haStatus -b $BROKER"),
    _run("setConsumeMode -b $BROKER -t AdmTopic -g AdmGroup -m PULL"),
    _run("updateTopicPerm -t AdmTopic2 -p 4 -b $BROKER"),
    _run("updateOrderConf -t AdmTopic2 -m put -v broker-a:2"),
    _run("updateOrderConf -t AdmTopic2 -m get"),
    _run("updateOrderConf -t AdmTopic2 -m delete"),
    _run("wipeWritePerm -b broker-a"),
    _run("addWritePerm -b broker-a"),
    _run("updateKvConfig -s AdmSpace -k one -v 1"),
    _run("deleteKvConfig -s AdmSpace -k one"),
    _run("getNamesrvConfig"),
    _run("updateNamesrvConfig -k clusterTest -v false"),
    _run("exportMetadata -b $BROKER -f $FOLDER/export", own=True),
    _run("exportMetadata -c DefaultCluster -f $FOLDER/export"),
    _run("exportConfigs -c DefaultCluster -f $FOLDER/export"),
    _run("exportMetrics -c DefaultCluster -f $FOLDER/export"),
    _run("deleteSubGroup -g AdmGroup -b $BROKER -r true"),
    _run("deleteSubGroup -g AdmGroup2 -c DefaultCluster -r true"),
    _run("deleteTopic -t AdmTopic2 -c DefaultCluster"),
    _run("topicList"),
    _run("help updateTopic", own=True),
    _run("clusterRT -a 3 -s 64 -i 1"),
]

_ALICE = "-b $BROKER -u alice"

SET_COMMANDS = [
    _run("getControllerMetaData -a $CONTROLLER"),
    _run("getControllerConfig -a $CONTROLLER"),
    _run("updateControllerConfig -a $CONTROLLER -k notifyBrokerRoleChanged -v true"),
    _run("getSyncStateSet -a $CONTROLLER -b broker-set"),
    _run("getSyncStateSet -a $CONTROLLER -c DefaultCluster"),
    _run("getBrokerEpoch -b broker-set"),
    _run("getBrokerEpoch -c DefaultCluster"),
    _run("haStatus -b $BROKER"),
    _run("haStatus -b $SLAVE"),
    _run("haStatus -c DefaultCluster"),
    _run("resetMasterFlushOffset -b $SLAVE -o 0"),
    _run("brokerStatus -c DefaultCluster"),
    _run("updateBrokerConfig -c DefaultCluster -k transactionCheckMax -v 13"),
    _run("updateBrokerConfig -c DefaultCluster -a true -k transactionCheckMax -v 14"),
    _run("getBrokerConfig -c DefaultCluster"),
    _run("getColdDataFlowCtrInfo -c DefaultCluster"),
    _run("setCommitLogReadAheadMode -c DefaultCluster -m 1"),
    _run("setCommitLogReadAheadMode -c DefaultCluster -m 0"),
    _run("electMaster -a $CONTROLLER -b 1 -bn broker-set -c DefaultCluster"),
    _run("cleanBrokerMetadata -a $CONTROLLER -b 9 -bn broker-set -c DefaultCluster"),
    _run("cleanBrokerMetadata -a $CONTROLLER -b $BROKER -bn nobody -c DefaultCluster"),
    _run(f"createUser {_ALICE} -p 12345678"),
    _run(f"createUser {_ALICE} -p 12345678"),
    _run("createUser -c DefaultCluster -u bob -p 12345678 -t Super"),
    _run(f"updateUser {_ALICE} -s disable"),
    _run(f"getUser {_ALICE}"),
    _run("getUser -b $BROKER -u nobody"),
    _run("listUser -b $BROKER"),
    _run("listUser -c DefaultCluster -f bo"),
    _run("copyUser -f $BROKER -t $SLAVE -u alice"),
    _run("createAcl -b $BROKER -s User:alice -r Topic:*,Group:g -a Pub,Sub -d Allow -i 10.0.0.9"),
    _run("updateAcl -b $BROKER -s User:alice -r Topic:* -a Pub -d Deny"),
    _run("getAcl -b $BROKER -s User:alice"),
    _run("listAcl -b $BROKER"),
    _run("listAcl -c DefaultCluster -s alice -r Topic"),
    _run("copyAcl -f $BROKER -t $SLAVE -s User:alice"),
    _run("deleteAcl -b $BROKER -s User:alice -r Topic:*"),
    _run("deleteAcl -b $BROKER -s User:alice"),
    _run("deleteAcl -b $SLAVE -s User:alice"),
    _run("deleteUser -b $SLAVE -u alice"),
    _run(f"deleteUser {_ALICE}"),
    _run("updateUser -c DefaultCluster -u bob -t Normal"),
    _run("createAcl -c DefaultCluster -s User:bob -r Topic:* -a Pub -d Allow"),
    _run("updateAcl -c DefaultCluster -s User:bob -r Topic:* -a Sub -d Allow"),
    _run("getAcl -c DefaultCluster -s User:bob"),
    _run("deleteAcl -c DefaultCluster -s User:bob"),
    _run("deleteUser -c DefaultCluster -u bob"),
    _run("listUser -b $BROKER"),
    _run("dumpCompactionLog -f $FOLDER/nothing"),
    _run("startMonitoring"),
]
