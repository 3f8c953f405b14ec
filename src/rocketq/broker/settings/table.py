"""The settings of a broker, all of them: RocketMQ's and our own.

A row of a setting that counts belongs to a field of `BrokerConfig` or `StoreConfig`, which has
its type and its default. A feature that comes turns its rows from `not_there` or `no_effect`
into `live` or `at_start`. docs/settings.md is made from this table.
"""

from typing import Final

from rocketq.broker.settings.rows import Row, Section, at_start, live, no_effect, not_there
from rocketq.common.metrics.monitoring import EXPORTER_KINDS

_DAY_MS: Final = 86_400_000
_INT: Final = 2**31 - 1
_LONG: Final = 2**63 - 1
_GIB: Final = 1 << 30
_TIB: Final = 1 << 40

SECTIONS: Final = (
    Section(
        "Who it is and where it listens",
        (
            at_start("brokerClusterName", "The cluster it belongs to."),
            at_start("brokerName", "Its name; a master and its slaves share one."),
            at_start("brokerId", "0 for a master; with a controller it has no say.", -1, _LONG),
            at_start("brokerIP1", "The address clients are told."),
            at_start("brokerIP2", "The address slaves are told; that of clients if not given."),
            at_start("bindAddress", "The address it listens on."),
            at_start("listenPort", "Its port, and two below it; 0 takes a free one.", 0, 65_535),
            at_start("rocketmqHome", "Shown to tools; nothing is read from there."),
        ),
    ),
    Section(
        "NameServers",
        (
            live("namesrvAddr", "Their addresses, separated by `;`."),
            live(
                "registerNameServerPeriod",
                "Time between registrations; 10 s to 60 s count.",
                1,
                _DAY_MS,
            ),
            live("registerBrokerTimeoutMills", "Patience with one of them.", 1, 600_000),
            live("forceRegister", "Register even where nothing has changed."),
            live("enableSplitRegistration", "Register large tables in parts."),
            live("splitRegistrationSize", "Topics in such a part.", 1, 1_000_000),
        ),
    ),
    Section(
        "Topics and groups",
        (
            live("brokerPermission", "What may be done here: 4 read, 2 write, 6 both.", 0, 7),
            live("defaultTopicQueueNums", "Queues of topics made by messages.", 1, 16_384),
            live("autoCreateTopicEnable", "A message to an unknown topic makes it."),
            live(
                "autoCreateTopicOnAllBrokers",
                "It makes it on all masters of the cluster, not on this one alone.",
                ours=True,
            ),
            at_start("clusterTopicEnable", "The topic named after the cluster can be used."),
            at_start("brokerTopicEnable", "The topic named after the broker can be used."),
            at_start("traceTopicEnable", "The topic for traces of messages is made."),
            at_start("msgTraceTopicName", "Its name."),
            live("autoCreateSubscriptionGroup", "A consumer of an unknown group makes it."),
            live("validateSystemTopicWhenUpdateTopic", "System topics cannot be changed."),
            live("enableMixedMessageType", "Topics may have the type MIXED."),
            live("clearRetryTopicWhenDeleteTopic", "Retry topics of a pair go with their topic."),
            live("maxQueueNums", "Queues a topic may have.", 1, 1_048_575, ours=True),
            live(
                "maxTopicsMadeUnasked",
                "Topics there may be before clients can make no more of them by sending or "
                "subscribing; administrators always can.",
                0,
                10_000_000,
                ours=True,
            ),
            live(
                "maxGroupsMadeUnasked",
                "The same for consumer groups.",
                0,
                10_000_000,
                ours=True,
            ),
            live(
                "maxMadePerConnection",
                "Topics and groups that one connection may make unasked.",
                0,
                10_000_000,
                ours=True,
            ),
            live(
                "maxConsumerOffsets",
                "Offsets there may be, one for each queue that a group has read, and four more for "
                "each pair of group and topic; beyond them those that are known change, and no "
                "more are taken.",
                1,
                100_000_000,
                ours=True,
            ),
        ),
    ),
    Section(
        "Metrics and health",
        (
            at_start(
                "metricsExporterType",
                "Where figures go: DISABLE, PROM (a page for Prometheus, and health), OTLP_GRPC "
                "(to an OpenTelemetry collector), LOG.",
                choices=EXPORTER_KINDS,
            ),
            at_start("metricsPromExporterPort", "The page's port; 0 takes a free one.", 0, 65_535),
            at_start("metricsPromExporterHost", "The page's address; brokerIP1 if not given."),
            at_start("metricsGrpcExporterTarget", "The collector; `https://` if nothing is said."),
            at_start("metricsGrpcExporterHeader", "What it is told, `k:v,k:v`; a token perhaps."),
            at_start("metricGrpcExporterTimeOutInMills", "Patience with it.", 1, 600_000),
            at_start("metricGrpcExporterIntervalInMills", "How often.", 100, _DAY_MS),
            at_start(
                "metricLoggingExporterIntervalInMills", "How often, to the log.", 100, _DAY_MS
            ),
            at_start("metricsLabel", "Labels of every series, `k:v,k:v`."),
            at_start(
                "metricsOtelCardinalityLimit",
                "Series a family may have; what is left out is counted.",
                1,
                1_000_000,
            ),
            at_start("metricsExportBatchMaxDataPoints", "Points in a request.", 1, 100_000),
            at_start("enableConnectionMetrics", "Figures about connections."),
            at_start("enableLagAndDlqMetrics", "Figures about lag."),
            at_start("enableMessageStoreMetrics", "Figures about the store and timers."),
            at_start("enablePopMetrics", "Figures about pops."),
            at_start("enableRemotingMetrics", "Figures about how long requests take."),
            at_start("enableRequestMetrics", "Figures about messages by topic and group."),
            at_start("enableStatsMetrics", "Figures about the broker as a whole."),
            at_start("enableTransactionMetrics", "Figures about transactions."),
        ),
    ),
    Section(
        "Sending",
        (
            live("regionId", "Written into messages and replies."),
            live("traceOn", "Tells clients to trace their messages."),
            live("startAcceptSendRequestTimeStamp", "Refuses messages before.", 0, _LONG),
            live("rejectTransactionMessage", "Refuses half messages."),
            live("storeReplyMessageEnable", "Keeps replies of the request-reply pattern."),
            live("maxMessageSize", "Bytes a message's body may have.", 1, 128 << 20),
            live("maxTopicLength", "Characters a topic's name may have.", 1, 255),
            at_start("autoMessageVersionOnTopicLen", "Long names in records of a later version."),
            at_start("enabledAppendPropCRC", "Writes a checksum of the properties into records."),
            live(
                "sendThreadPoolQueueCapacity",
                "Messages that may wait for their flush before others are refused.",
                1,
                100_000_000,
            ),
            live(
                "osPageCacheBusyTimeOutMills",
                "An append that takes longer makes the store count as busy.",
                1,
                600_000,
            ),
        ),
    ),
    Section(
        "Pulling",
        (
            live("longPollingEnable", "A pull that finds nothing waits as long as it asks for."),
            live("shortPollingTimeMills", "How long it waits otherwise.", 0, 120_000),
            live("litePullMessageEnable", "Lite pull consumers are served."),
            live("rejectPullConsumerEnable", "Only push consumers are served."),
            live("disableConsumeIfConsumerReadSlowly", "Stops groups that are far behind."),
            live("consumerFallbehindThreshold", "How many bytes that is.", 1, _LONG),
            live("maxPullBytes", "Bytes a pull may ask for.", 1, 64 << 20, ours=True),
            live("maxPullMessageCount", "Messages a pull may ask for.", 1, 1_048_576, ours=True),
            at_start("maxHeldPulls", "Pulls that may wait for messages.", 1, 10_000_000, ours=True),
            at_start(
                "maxHeldPullsPerConnection",
                "Pulls of one connection that may wait for messages.",
                1,
                10_000_000,
                ours=True,
            ),
            live(
                "maxTransferBytesOnMessageInMemory",
                "Bytes a pull gets that asks for no number of them.",
                1,
                64 << 20,
            ),
            live("maxTransferBytesOnMessageInDisk", "The same, far behind.", 1, 64 << 20),
            at_start(
                "accessMessageInMemoryMaxRatio",
                "Per cent of the memory within which messages count as being in it.",
                0,
                100,
            ),
            live("maxFilterMessageSize", "Bytes of a queue a pull looks through.", 20, 1_048_576),
            live("enablePropertyFilter", "SQL92 expressions may be used."),
            live("filterSupportRetry", "They also hold for messages that come again."),
        ),
    ),
    Section(
        "Replicas",
        (
            at_start(
                "brokerRole",
                "Whether it takes messages, and waits for its slaves.",
                choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
            ),
            at_start("haListenPort", "Where slaves copy the log; 0 is listenPort + 1.", 0, 65_535),
            live(
                "haAllowedAddresses",
                "From where slaves may come, networks separated by commas; empty from anywhere.",
                ours=True,
            ),
            at_start("haMasterAddress", "Where a slave finds it, if not where NameServers say."),
            live("inSyncReplicas", "Copies a SYNC_MASTER waits for, its own is one.", 0, 64),
            live("minInSyncReplicas", "With fewer in sync it takes no message.", 0, 64),
            live("enableAutoInSyncReplicas", "No more are waited for than are in sync."),
            live("slaveTimeout", "How long a sender waits for slaves.", 1, 600_000),
            live(
                "haMaxGapNotInSync",
                "A slave that is further behind, in bytes, is not in sync.",
                1,
                _LONG,
            ),
            live(
                "haSlaveFallbehindMax",
                "RocketMQ 4's: a slave further behind, in bytes, is not waited for; 0: all are.",
                0,
                _LONG,
            ),
            live("haTransferBatchSize", "Bytes sent at a time.", 1, 4_194_240),
            live("haFlowControlEnable", "Limits how fast a slave is sent the log."),
            live("maxHaTransferByteInSecond", "That limit, in bytes per second.", 1, _LONG),
            live("haSendHeartbeatInterval", "Silence before a sign of life.", 100, _DAY_MS),
            live("haHousekeepingInterval", "Silence after which one is gone.", 1_000, _DAY_MS),
            live("syncFromLastFile", "A new slave gets the last file of the log, else all."),
            live("slaveReadEnable", "Slaves are read from by groups that are far behind."),
            live("offsetCheckInSlave", "Slaves correct offsets that are out of range."),
        ),
    ),
    Section(
        "Masters elected by a controller",
        (
            at_start("enableControllerMode", "A controller decides who is master."),
            at_start("controllerAddr", "The controllers' addresses, separated by `;`."),
            live("allAckInSyncStateSet", "All in sync are waited for, by senders and readers."),
            live("brokerHeartbeatInterval", "Between signs of life.", 50, 60_000),
            live(
                "controllerHeartBeatTimeoutMills",
                "Silence after which the controller takes it for dead.",
                200,
                _DAY_MS,
            ),
            live(
                "masterLeaseTimeout",
                "How long a master acts after the controller's last answer; 0: for ever.",
                0,
                _DAY_MS,
                ours=True,
            ),
            live("brokerElectionPriority", "Of equals the smallest becomes master.", 0, _INT),
            live(
                "haMaxTimeSlaveNotCatchup",
                "A slave that is behind for longer is out of sync.",
                100,
                _DAY_MS,
            ),
            at_start("asyncLearner", "It is never in sync, and so never master."),
        ),
    ),
    Section(
        "Clients",
        (
            live("channelExpiredTimeout", "Silence after which one is gone.", 1, _DAY_MS),
            live("subscriptionExpiredTimeout", "How long pulls speak for it.", 1, _DAY_MS),
            live(
                "maxGroupsPerConnection",
                "Producer groups, and consumer groups, that one connection may be in.",
                1,
                10_000_000,
                ours=True,
            ),
            live("notifyConsumerIdsChangedEnable", "Consumers hear when their group changes."),
            live("realTimeNotifyConsumerChange", "They hear it at once, else every 15 s."),
            live("enableRegisterProducer", "Producers are known by their heartbeats."),
            at_start("serverChannelMaxIdleTimeSeconds", "Silence of a connection.", 1, 86_400),
            at_start(
                "writeBufferHighWaterMark",
                "Bytes a client may leave unread before nothing more is read from it; "
                "0 is a megabyte.",
                0,
                _GIB,
            ),
            at_start(
                "stayAwakeMicros",
                "How long to look for the next request before going to sleep, where requests "
                "follow one another closely; 0 sleeps at once.",
                0,
                10_000,
                ours=True,
            ),
        ),
    ),
    Section(
        "Offsets",
        (
            live("flushConsumerOffsetInterval", "Time between writes.", 1, _DAY_MS),
            live("useServerSideResetOffset", "A reset is done by the broker itself."),
        ),
    ),
    Section(
        "Transactions and delays",
        (
            live("transactionTimeOut", "Time before a producer is asked.", 1, _DAY_MS),
            live("transactionCheckMax", "How often it is asked.", 0, 1_000_000),
            live("transactionCheckInterval", "Time between questions.", 1, _DAY_MS),
            live("transactionOpMsgMaxSize", "Bytes of decisions written at once.", 1, 1_048_576),
            live("transactionOpBatchInterval", "Time decisions are collected.", 1, 600_000),
            at_start("messageDelayLevel", "How long each delay level waits."),
            live("flushDelayOffsetInterval", "Time between writes.", 1, _DAY_MS),
        ),
    ),
    Section(
        "Messages of any delay",
        (
            at_start("timerWheelEnable", "Messages may name the time of their delivery."),
            at_start("timerPrecisionMs", "How exactly it is kept.", 10, 1_000),
            live("timerMaxDelaySec", "Seconds a message may wait.", 1, _INT),
            at_start("timerRollWindowSlot", "Slots of the wheel within one turn.", 1, _INT),
            live("timerCongestNumEachSlot", "Messages of one moment.", 1, _INT),
            at_start("timerFlushIntervalMs", "Time between writes.", 10, 600_000),
            live("timerStopEnqueue", "Takes no more of them in."),
            live("timerStopDequeue", "Delivers none of them."),
            at_start("mappedFileSizeTimerLog", "Bytes of a file of the timer log.", 68, _GIB),
            live("recallMessageEnable", "They can be called back."),
            live("allowRecallWhenBrokerNotWriteable", "Also where nothing can be sent."),
            live("appendTopicForTimerDeleteKey", "What is called back is known with its topic."),
        ),
    ),
    Section(
        "Where messages are kept",
        (
            at_start("storePathRootDir", "The folder of everything."),
            at_start("storePathCommitLog", "The log's folders, if not below it; `,` between."),
            at_start("readOnlyCommitLogStorePaths", "Folders of the log that are only read."),
            at_start("mappedFileSizeCommitLog", "Bytes of a file of the log.", 1_024, 8 * _GIB),
            at_start("mappedFileSizeConsumeQueue", "Bytes of a queue's file.", 20, _GIB),
            at_start("maxMappedQueueFiles", "Queue files open at a time.", 16, _INT, ours=True),
            at_start("messageIndexEnable", "Messages can be found by key."),
            at_start("maxHashSlotNum", "Slots of an index file.", 1, 500_000_000),
            at_start("maxIndexNum", "Entries of an index file.", 2, 1_000_000_000),
            live("maxMsgsNumBatch", "Messages a search by key may find.", 1, 65_536),
            live("defaultQueryMaxNum", "Messages a search by unique key finds.", 1, 65_536),
        ),
    ),
    Section(
        "Durability",
        (
            at_start(
                "flushDiskType",
                "Whether a message is acknowledged before it is on the disk.",
                choices=("SYNC_FLUSH", "ASYNC_FLUSH"),
            ),
            at_start("flushIntervalCommitLog", "Time between flushes.", 1, 600_000),
            at_start("flushCommitLogLeastPages", "Pages worth a flush.", 0, 1_048_576),
            at_start("flushCommitLogThoroughInterval", "Time until any are.", 1, _DAY_MS),
            at_start("flushIntervalConsumeQueue", "The same for queues.", 1, 600_000),
            at_start("flushConsumeQueueThoroughInterval", "The same for queues.", 1, _DAY_MS),
            at_start("syncFlushTimeout", "Patience of who waits for it.", 1, 600_000),
            at_start("warmMapedFileEnable", "New files are filled before they are used."),
            at_start("checkCRCOnRecover", "Bodies are checked after a crash."),
            at_start("forceVerifyPropCRC", "Properties are checked after a crash."),
        ),
    ),
    Section(
        "Retention",
        (
            live("cleanResourceInterval", "Time between cleanings.", 1, _DAY_MS),
            live("deleteWhen", "Hours at which old files go, `;` between."),
            live("fileReservedTime", "Hours a message is kept.", 1, 1_000_000),
            live("deleteFileBatchMax", "Files deleted in one round.", 1, 100_000),
            live("deleteCommitLogFilesInterval", "Time between two of them.", 0, 600_000),
            live("cleanFileForciblyEnable", "A full disk takes files of any age."),
            live(
                "diskMaxUsedSpaceRatio",
                "Per cent: old files go at any hour; 10 to 95 count.",
                1,
                100,
            ),
            live(
                "diskSpaceCleanForciblyRatio",
                "Per cent: files of any age go; 30 to 85 count.",
                1,
                100,
            ),
            live(
                "diskSpaceWarningLevelRatio",
                "Per cent: nothing is accepted; 35 to 90 count.",
                1,
                100,
            ),
        ),
    ),
    Section(
        "Administration",
        (
            live("configBlackList", "Keys that cannot be changed while it runs; `;` between."),
            live("cgColdReadThreshold", "Shown to tools: bytes of old messages.", 0, _TIB),
            live("globalColdReadThreshold", "Shown to tools, of all groups.", 0, _TIB),
            at_start("shutdownWaitTimeSeconds", "Shown to tools.", 0, 86_400),
            at_start("reviveQueueNum", "Queues of the topic pop keeps its books in.", 1, 998),
            live("reviveInterval", "Time between looks for what was not acknowledged.", 10, 60_000),
            live("defaultMessageRequestMode", "How groups take messages: PULL or POP."),
            live("defaultPopShareQueueNum", "Neighbours' queues a client pops too.", -1, _INT),
            live("serverLoadBalancerEnable", "Shares queues out for those who ask for that."),
            live("popPollingSize", "Pops of a group that may wait for one queue.", 1, _INT),
            live("maxPopPollingSize", "Pops that may wait in all.", 1, _INT),
            live("maxHeldPopsPerConnection", "Of one connection.", 1, 1_000_000, ours=True),
            live("popFromRetryProbability", "Percent that look for retries first.", 0, 100),
            live("popFromRetryProbabilityForPriority", "The same for PRIORITY topics.", 0, 100),
            live("priorityOrderAsc", "Queues are visited downwards."),
            live("enableRetryTopicV2", "Retry topics are named with a plus sign."),
            live("retrieveMessageFromPopRetryTopicV1", "The others are read as well."),
            live("popResponseReturnActualRetryTopic", "Retries keep the retry topic's name."),
            live("initPopOffsetByCheckMsgInMem", "New groups begin with what is in memory."),
            live("enablePopBufferMerge", "Pops and acks wait in memory for one another."),
            live("popCkStayBufferTime", "How long a pop waits there.", 0, 600_000),
            live("popCkStayBufferTimeOut", "It leaves so long before its end.", 1_000, 600_000),
            live("popCkMaxBufferSize", "Pops that wait there at most.", 0, 10_000_000),
            live("popCkOffsetMaxQueueSize", "Of one group and queue.", 1, 10_000_000),
            live("useMessageFilterForNotification", "Who waits is told of what it wants only."),
            live("maxMessageFilterNumForNotification", "Messages looked at for that.", 0, 1_024),
        ),
    ),
    Section(
        "Users and rights",
        (
            at_start("authenticationEnabled", "Every request must be signed by a user."),
            at_start("authorizationEnabled", "Every request needs its right."),
            at_start("authenticationWhitelist", "Codes that need no user, separated by commas."),
            at_start("authorizationWhitelist", "Codes that need no right."),
            at_start(
                "initAuthenticationUser",
                "The first super user, as JSON with `username` and `password`; made if absent.",
            ),
            at_start(
                "innerClientAuthenticationCredentials",
                "What this broker signs its own requests with, as JSON with `accessKey` and "
                "`secretKey`; a super user of that name is made if absent.",
            ),
            at_start("aclEnable", "The accounts of RocketMQ 4 count, instead of users."),
            at_start(
                "rocketmq.acl.plain.file",
                "Their file, in `rocketmqHome` unless its path is whole; those in `acl` beside it "
                "count, too.",
            ),
            at_start("migrateAuthFromV1Enabled", "Users are made of accounts at the start."),
        ),
    ),
    Section(
        "Encryption",
        (
            at_start(
                "tls.server.mode",
                "What connections may be: plain, either, or encrypted.",
                choices=("disabled", "permissive", "enforcing"),
            ),
            at_start(
                "tls.test.mode.enable",
                "Encrypt with a certificate made at the start, which proves nothing.",
            ),
            at_start(
                "tls.config.file",
                "A file with these keys, but for the mode and `tls.enable`; it counts before this.",
            ),
            at_start("tls.server.certPath", "Our certificate and those above it, as PEM."),
            at_start("tls.server.keyPath", "Its key."),
            at_start("tls.server.keyPassword", "What the key is locked with."),
            at_start(
                "tls.server.need.client.auth",
                "Whether clients have to show certificates.",
                choices=("none", "optional", "require"),
            ),
            at_start("tls.server.authClient", "Their certificates are checked."),
            at_start("tls.server.trustCertPath", "The certificates that vouch for them."),
            at_start("tls.enable", "Connections of our own are encrypted."),
            at_start("useTLS", "The same; enforcing implies it."),
            at_start("tls.client.certPath", "The certificate shown there."),
            at_start("tls.client.keyPath", "Its key."),
            at_start("tls.client.keyPassword", "What the key is locked with."),
            at_start("tls.client.authServer", "The other side's certificate is checked."),
            at_start("tls.client.trustCertPath", "The certificates that vouch for it."),
            at_start("tls.protocols", "TLSv1.2, TLSv1.3 or both, separated by commas."),
            at_start("tls.ciphers", "Ciphers below TLS 1.3, by OpenSSL's names, with commas."),
        ),
    ),
    Section(
        "Strangers",
        (
            at_start(
                "maxConnections",
                "Connections in all; never more than four fifths of the files the process may "
                "open.",
                1,
                1_000_000,
                ours=True,
            ),
            at_start("maxConnectionsPerAddress", "From one address.", 1, 1_000_000, ours=True),
            at_start("maxTlsHandshakes", "Handshakes under way at a time.", 1, 100_000, ours=True),
            at_start(
                "tlsHandshakeTimeoutMillis", "How long one may take.", 100, 600_000, ours=True
            ),
            at_start(
                "maxFrameLengthBeforeLogin",
                "The longest frame of somebody who has not shown who it is, where users are on.",
                4_096,
                16_777_216,
                ours=True,
            ),
            at_start(
                "proxyProtocolAddresses",
                "Proxies, as addresses and networks with commas: they are believed when a PROXY "
                "preamble says whose connection they pass on.",
                ours=True,
            ),
        ),
    ),
    Section(
        "Not there yet",
        (
            not_there("duplicationEnable", "the log is copied by replicas alone", "false"),
            not_there("enableSlaveActingMaster", "slaves cannot act as master here", "false"),
            not_there(
                "fetchControllerAddrByDnsLookup", "controllerAddr names all of them", "false"
            ),
            not_there("enableRemoteEscape", "slaves cannot act as master here", "false"),
            not_there("isInBrokerContainer", "one process runs one broker", "false"),
            not_there("isBrokerContainer", "one process runs one broker", "false"),
            not_there("enableDLegerCommitLog", "only the default store exists", "false"),
            not_there("storeType", "only the default store exists", "default", ""),
            not_there("rocksdbCQDoubleWriteEnable", "only the default store exists", "false"),
            not_there("timerRocksDBEnable", "only the default store exists", "false"),
            not_there("transRocksDBEnable", "only the default store exists", "false"),
            not_there("indexRocksDBEnable", "only the default store exists", "false"),
            not_there("enableConsumeQueueExt", "queues have no extension here", "false"),
            not_there("enableLmq", "light queues are not there", "false"),
            not_there("enableMultiDispatch", "light queues are not there", "false"),
            not_there("timerInterceptDelayLevel", "delay levels have queues of their own", "false"),
            not_there("coldDataFlowControlEnable", "old messages are not held back", "false"),
            not_there("enableNetWorkFlowControl", "clients are not held back by rate", "false"),
            not_there("metricsInDelta", "counters are sent as they are since start", "false"),
            not_there(
                "fetchNamesrvAddrByAddressServer", "name NameServers in namesrvAddr", "false"
            ),
            not_there("fetchNameSrvAddrByDnsLookup", "name NameServers in namesrvAddr", "false"),
            not_there("messageStorePlugIn", "the store takes no plug-ins", ""),
            not_there(
                "persistConsumerOffsetIncrementally", "only the whole table is kept", "false"
            ),
            not_there("enableBatchPush", "batches are not pushed", "false"),
            not_there("lockInStrictMode", "locks are this broker's alone", "false"),
            not_there("useStaticSubscription", "subscriptions come from clients", "false"),
            not_there("highSpeedMode", "there is no such mode here", "false"),
            not_there("enableAcceleratedRecovery", "recovery has one way here", "false"),
        ),
    ),
    Section(
        "Without effect",
        (
            *no_effect(
                "Sizes Java's thread pools and sockets; here one loop does the work.",
                """sendMessageThreadPoolNums putMessageFutureThreadPoolNums
                pullMessageThreadPoolNums
                litePullMessageThreadPoolNums ackMessageThreadPoolNums
                processReplyMessageThreadPoolNums queryMessageThreadPoolNums
                adminBrokerThreadPoolNums clientManageThreadPoolNums consumerManageThreadPoolNums
                loadBalanceProcessorThreadPoolNums heartbeatThreadPoolNums recoverThreadPoolNums
                endTransactionThreadPoolNums putThreadPoolQueueCapacity pullThreadPoolQueueCapacity
                litePullThreadPoolQueueCapacity ackThreadPoolQueueCapacity
                replyThreadPoolQueueCapacity queryThreadPoolQueueCapacity
                clientManagerThreadPoolQueueCapacity consumerManagerThreadPoolQueueCapacity
                heartbeatThreadPoolQueueCapacity endTransactionPoolQueueCapacity
                adminBrokerThreadPoolQueueCapacity loadBalanceThreadPoolQueueCapacity
                serverWorkerThreads serverCallbackExecutorThreads serverSelectorThreads
                serverOnewaySemaphoreValue serverAsyncSemaphoreValue
                serverPooledByteBufAllocatorEnable useEpollNativeSelector clientWorkerThreads
                clientCallbackExecutorThreads clientPooledByteBufAllocatorEnable
                batchDispatchRequestThreadPoolNums clientAsyncSemaphoreValue
                clientOnewaySemaphoreValue clientChannelMaxIdleTimeSeconds
                clientCloseSocketIfTimeout clientSocketRcvBufSize clientSocketSndBufSize
                connectTimeoutMillis channelNotActiveInterval disableCallbackExecutor
                disableNettyWorkerGroup enableReconnectForGoAway isScanAvailableNameSrv
                maxReconnectIntervalTimeSeconds serverNettyWorkerGroupEnable serverSocketBacklog
                serverSocketRcvBufSize serverSocketSndBufSize socksProxyConfig
                writeBufferLowWaterMark topicQueueLockNum dispatchCqThreads dispatchCqCacheNum
                dispatchFromSenderThread maxAsyncPutMessageRequests sharedByteBufferNum
                asyncSendEnable transferMsgByHeap enableFastChannelEventProcess
                spinLockCollisionRetreatOptimalDegree useABSLock debugLockEnable""",
            ),
            *no_effect(
                "Bounds the wait before one of Java's thread pools; nothing waits there here.",
                """brokerFastFailureEnable waitTimeMillsInSendQueue waitTimeMillsInPullQueue
                waitTimeMillsInLitePullQueue waitTimeMillsInHeartbeatQueue
                waitTimeMillsInTransactionQueue waitTimeMillsInAckQueue
                waitTimeMillsInAdminBrokerQueue""",
            ),
            *no_effect(
                "Records go straight into the mapped file: there is no pool of buffers, no "
                "separate commit and no other way to write.",
                """transientStorePoolEnable transientStorePoolSize fastFailIfNoBufferInStorePool
                commitIntervalCommitLog commitCommitLogLeastPages commitCommitLogThoroughInterval
                useReentrantLockWhenPutMessage writeWithoutMmap flushCommitLogTimed
                flushConsumeQueueLeastPages putMessageTimeout readUnCommitted
                putConsumeQueueDataByFileChannel wakeCommitWhenPutMessage wakeFlushWhenPutMessage
                flushLeastPagesWhenWarmMapedFile""",
            ),
            *no_effect(
                "The store maps, indexes, recovers and cleans in its own way.",
                """messageIndexSafe indexFileReadEnable indexFileWriteEnable diskFallRecord
                diskFallRecorded commitLogRecoverMaxNum checkCommitLogOffsetOnRecover
                deleteConsumeQueueFilesInterval destroyMapedFileIntervalForcibly
                redeleteHangedFileInterval maxTransferCountOnMessageInMemory
                maxTransferCountOnMessageInDisk accessMessageInMemoryHotRatio
                cleanSwapedMapInterval commitLogForceSwapMapInterval commitLogSwapMapInterval
                commitLogSwapMapReserveFileNum logicQueueForceSwapMapInterval
                logicQueueSwapMapInterval logicQueueSwapMapReserveFileNum mappedFileSwapEnable
                correctLogicMinOffsetForceInterval correctLogicMinOffsetSleepInterval
                dataReadAheadEnable disappearTimeAfterStart enableAsyncReput
                enableBuildConsumeQueueConcurrently enableCleanExpiredOffset
                enableLogConsumeQueueRepeatedlyBuildWhenRecover enableRunningFlagsInFlush
                enableShutdownGracefully logicalDiskSpaceCleanForciblyThreshold
                mappedFileSizeConsumeQueueExt mapperFileSizeBatchConsumeQueue
                maxBatchDeleteFilesNum maxChecksumRange maxConsumeQueueScan
                maxRecoveryCommitlogFiles pullBatchMaxMessageCount putMsgIndexHightWater
                recheckReputOffsetFromCq recoverConcurrently sampleCountThreshold sampleSteps
                searchBcqByCacheEnable travelCqFileNumWhenGetMessage maxOffsetMapSize""",
            ),
            *no_effect(
                "Topics are not compacted.",
                """enableCompaction compactionCqMappedFileSize compactionMappedFileSize
                compactionScheduleInternal compactionThreadNum""",
            ),
            *no_effect(
                "There is no RocksDB.",
                """bottomMostCompressionTypeForConsumeQueueStore cleanRocksDBDirtyCQIntervalMin
                combineAssignOffsetCQType combineCQEnableCheckSelf combineCQLoadingCQTypes
                combineCQMaxExtraSearchCommitLogFiles combineCQPreferCQType
                combineCQUseRocksdbForLmq configManagerVersion enableRocksDBLog
                iteratorWhenUseRocksdbConsumeQueue maxRocksDBIndexQueryDays
                memTableFlushIntervalMs realTimePersistRocksDBConfig rocksdbCompressionType
                rocksdbFlushWalFrequency rocksdbWalFileRollingThreshold statRocksDBCQIntervalSec
                timerRocksDBPrecisionMs timerRocksDBRollIntervalHours timerRocksDBRollMaxTps
                timerRocksDBRollRangeHours timerRocksDBStopScan timerRocksDBTimeExpiredMaxTps
                transWriteOriginTransHalfEnable transactionCheckRocksdbCoreThreads
                transactionCheckRocksdbMaxThreads transactionCheckRocksdbQueueCapacity
                useSeparateStorePathForRocksdbCQ useSingleRocksDBForAllConfigs""",
            ),
            *no_effect(
                "Belongs to acting masters, which are not there.",
                """totalReplicas brokerNotActiveTimeoutMillis
                cleanOfflineBrokerInterval compatibleWithOldNameSrv forwardTimeout
                maxSlaveResendLength replicasPerDiskPartition sendHeartbeatTimeoutMillis
                skipPreOnline syncBrokerMemberGroupPeriod syncMasterFlushOffsetWhenStartup""",
            ),
            *no_effect(
                "Controllers are asked with every sign of life, and told of changes at once.",
                "checkSyncStateSetPeriod syncBrokerMetadataPeriod syncControllerMetadataPeriod",
            ),
            *no_effect(
                "Belongs to a part of pop that is done in another way here.",
                """
                 appendAckAsync appendCkAsync enableLitePopLog
                enableNotifyAfterPopOrderLockRelease enableNotifyBeforePopCalculateLag
                enablePopBatchAck enablePopLog enablePopMessageThreshold
                enableSkipLongAwaitingAck popConsumerFSServiceInit
                popConsumerKVServiceEnable popConsumerKVServiceInit popConsumerKVServiceLog
                 popInflightMessageThreshold
                popLongPollingForceNotifyInterval popPollingMapExpireTimeSeconds
                popPollingMapSize  popReviveConcurrency
                popReviveMaxAttemptTimes popReviveMaxReturnSizePerRead popReviveSkipIfGroupAbsent
                  reviveAckWaitMs reviveMaxSlow
                reviveScanTime  skipWhenCKRePutReachMaxTimes
                useSeparateRetryQueue""",
            ),
            *no_effect(
                "The timer wheel is served by the loop, and kept in its own way.",
                """                timerCheckMetricsWhen timerColdDataCheckIntervalMs
                timerEnableCheckMetrics timerEnableDisruptor
                timerEnableRetryUntilSuccess timerGetMessageThreadNum
                timerMetricSmallThreshold timerProgressLogIntervalMs timerPutMessageThreadNum
                timerRecallToTimeWheelEnable timerRecallToTimelineEnable
                timerReputServiceCorePoolSize timerReputServiceMaxPoolSize
                timerReputServiceQueueCapacity timerSkipUnknownError
                timerWarmEnable timerWheelSnapshotFlush
                timerWheelSnapshotIntervalMs """,
            ),
            *no_effect(
                "Belongs to lite topics and light queues, which are not there.",
                """enableLiteEventMode enableLmqQuota enableLmqStats liteEventCheckInterval
                liteEventFullDispatchDelayTime liteEventFullDispatchDelayTimeForWildcardGroup
                liteLagCountMetricsEnable liteLagLatencyCollectEnable liteLagLatencyMetricsEnable
                liteLagLatencyTopK liteSubscriptionCheckInterval
                liteSubscriptionCheckTimeoutMills liteTtlCheckInterval maxClientEventCount
                maxLiteSubscriptionCount maxLmqConsumeQueueNum minLiteTTl""",
            ),
            *no_effect(
                "Users and policies are kept in files here, and decisions are remembered until "
                "one of them changes.",
                """authConfigPath authenticationMetadataProvider authorizationMetadataProvider
                authenticationProvider authorizationProvider authenticationStrategy
                authorizationStrategy""",
            ),
            *no_effect(
                "Figures are counted when somebody asks for them, and exactly.",
                "transactionMetricFlushInterval estimateAccumulation",
            ),
            *no_effect(
                "Filters are compiled when they are used, without bit maps.",
                """filterDataCleanTimeSpan enableCalcFilterBitMap expectConsumerNumUseFilter
                maxErrorRateOfBloomFilter bitMapLengthConsumeQueueExt""",
            ),
            *no_effect(
                "Old messages are read by threads, and nobody is held back for it.",
                "coldCtrStrategyEnable coldDataScanEnable usePIDColdCtrStrategy",
            ),
            *no_effect(
                "What it tunes is done in another way here.",
                """enableSingleTopicRegister fetchNamesrvAddrInterval
                updateNameServerAddrPeriod compressedRegister
                enableSplitMetadata splitMetadataSize flushConsumerOffsetHistoryInterval
                consumerOffsetUpdateVersionStep enableBroadcastOffsetStore
                broadcastOffsetExpireSecond broadcastOffsetExpireMaxSecond
                enableScheduleAsyncDeliver scheduleAsyncDeliverMaxPendingLimit
                scheduleAsyncDeliverMaxResendNum2Blocked accountStatsEnable enableDetailStat
                accountStatsPrintZeroValues autoDeleteUnusedStats commercialBaseCount
                commercialSizePerMsg delayOffsetUpdateVersionStep enableCreateSysGroup
                enableScheduleMessageStats isolateLogEnable loadBalancePollNameServerInterval
                maxStatsIdleTimeInMinutes printChannelGroups printChannelGroupsMinNum""",
            ),
        ),
    ),
)

TABLE: Final[dict[str, Row]] = {row.key: row for section in SECTIONS for row in section.rows}

assert len(TABLE) == sum(len(section.rows) for section in SECTIONS), "a key stands twice"
