import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Uses every kind of message and consumer through the official client, and says for each whether
 * what came back was what had to come back. Runs against any broker of the protocol and compiles
 * against any client from 4.9 on.
 *
 *   java -cp "JARS/*" Features.java NAMESRV [FEATURE ...]
 *
 * One line of JSON a feature: {"feature":"delay","ok":true,"ms":1042,"detail":""}
 */
public class Features {
    interface Feature {
        void run() throws Exception;
    }

    static String namesrv;
    static final String RUN = Long.toString(System.nanoTime() & 0xFFFFFF, 36);
    static final AtomicInteger NUMBER = new AtomicInteger();
    static final int WAIT_MS = 40_000;
    static final List<Runnable> CLOSERS = new CopyOnWriteArrayList<>();

    public static void main(String[] arguments) throws Exception {
        run(arguments, features());
    }

    static void run(String[] arguments, Map<String, Feature> features) throws Exception {
        namesrv = arguments[0];
        List<String> wanted = arguments.length > 1
            ? Arrays.asList(arguments).subList(1, arguments.length)
            : new ArrayList<>(features.keySet());
        boolean allOk = true;
        for (String name : wanted) {
            Feature feature = features.get(name);
            if (feature == null) {
                throw new IllegalArgumentException("no feature " + name + " in " + features.keySet());
            }
            long began = System.currentTimeMillis();
            String detail = "";
            boolean ok = true;
            try {
                feature.run();
            } catch (Throwable failure) {
                ok = false;
                StackTraceElement[] trace = failure.getStackTrace();
                detail = failure + (trace.length > 0 ? " at " + trace[0] : "");
                for (StackTraceElement element : trace) {
                    if (element.getClassName().startsWith("Features")) {
                        detail += " <- line " + element.getLineNumber();
                        break;
                    }
                }
            }
            for (Runnable closer : CLOSERS) {
                closer.run();
            }
            CLOSERS.clear();
            allOk &= ok;
            System.out.println("{\"feature\":\"" + name + "\",\"ok\":" + ok + ",\"ms\":"
                + (System.currentTimeMillis() - began) + ",\"detail\":\"" + escaped(detail) + "\"}");
            System.out.flush();
        }
        System.exit(allOk ? 0 : 1);
    }

    static Map<String, Feature> features() {
        Map<String, Feature> all = new LinkedHashMap<>();
        all.put("send-sync", Features::sendSync);
        all.put("send-async", Features::sendAsync);
        all.put("send-oneway", Features::sendOneway);
        all.put("send-to-queue", Features::sendToQueue);
        all.put("send-batch", Features::sendBatch);
        all.put("ordered", Features::ordered);
        all.put("delay", Features::delay);
        all.put("transaction-commit", () -> transaction(LocalTransactionState.COMMIT_MESSAGE));
        all.put("transaction-rollback", () -> transaction(LocalTransactionState.ROLLBACK_MESSAGE));
        all.put("transaction-check", () -> transaction(LocalTransactionState.UNKNOW));
        all.put("push-concurrent", Features::pushConcurrent);
        all.put("push-orderly", Features::pushOrderly);
        all.put("two-instances", Features::twoInstances);
        all.put("broadcasting", Features::broadcasting);
        all.put("retry", Features::retry);
        all.put("dead-letter", Features::deadLetter);
        all.put("tag-filter", Features::tagFilter);
        all.put("sql-filter", Features::sqlFilter);
        all.put("pull", Features::pull);
        all.put("lite-pull-subscribe", Features::litePullSubscribe);
        all.put("lite-pull-assign", Features::litePullAssign);
        all.put("request-reply", Features::requestReply);
        all.put("offsets-by-time", Features::offsetsByTime);
        all.put("offset-reset", Features::offsetReset);
        all.put("query-by-id", Features::queryById);
        all.put("query-by-unique-key", Features::queryByUniqueKey);
        all.put("query-by-key", Features::queryByKey);
        all.put("trace", Features::trace);
        all.put("namespace", Features::namespace);
        all.put("large-body", Features::largeBody);
        all.put("compressed-body", Features::compressedBody);
        return all;
    }

    // ------------------------------------------------------------------ sending

    static void sendSync() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = producer();
        Set<Integer> queues = new HashSet<>();
        for (int i = 0; i < 8; i++) {
            SendResult result = producer.send(message(topic, "m" + i));
            check(result.getSendStatus() == SendStatus.SEND_OK, "status " + result);
            check(result.getOffsetMsgId().length() == 32, "offset id " + result);
            queues.add(result.getMessageQueue().getQueueId());
        }
        check(queues.size() == 4, "an automatic topic has 4 queues, seen " + queues);
        equal(bodies(consume(topic, "*", 8)), numbered("m", 8));
    }

    static void sendAsync() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "m0"));
        CountDownLatch acknowledged = new CountDownLatch(199);
        AtomicReference<Throwable> failed = new AtomicReference<>();
        for (int i = 1; i < 200; i++) {
            producer.send(message(topic, "m" + i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    acknowledged.countDown();
                }

                @Override
                public void onException(Throwable failure) {
                    failed.set(failure);
                    acknowledged.countDown();
                }
            });
        }
        check(acknowledged.await(WAIT_MS, TimeUnit.MILLISECONDS), "callbacks missing");
        check(failed.get() == null, "failed: " + failed.get());
        equal(bodies(consume(topic, "*", 200)), numbered("m", 200));
    }

    static void sendOneway() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "m0"));
        for (int i = 1; i < 50; i++) {
            producer.sendOneway(message(topic, "m" + i));
        }
        equal(bodies(consume(topic, "*", 50)), numbered("m", 50));
    }

    static void sendToQueue() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "first"));
        MessageQueue queue = producer.fetchPublishMessageQueues(topic).get(2);
        for (int i = 0; i < 5; i++) {
            SendResult result = producer.send(message(topic, "m" + i), queue);
            equal(result.getMessageQueue(), queue);
        }
        for (MessageExt message : consume(topic, "*", 6)) {
            if (body(message).startsWith("m")) {
                equal(message.getQueueId(), queue.getQueueId());
            }
        }
    }

    static void sendBatch() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = producer();
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 32; i++) {
            Message message = message(topic, "m" + i);
            message.setTags("batch");
            message.setKeys("key-" + i);
            message.putUserProperty("number", Integer.toString(i));
            batch.add(message);
        }
        SendResult result = producer.send(batch);
        equal(result.getSendStatus(), SendStatus.SEND_OK);
        equal(result.getOffsetMsgId().split(",").length, 32);
        List<MessageExt> received = consume(topic, "batch", 32);
        equal(bodies(received), numbered("m", 32));
        for (MessageExt message : received) {
            equal("m" + message.getUserProperty("number"), body(message));
        }
    }

    static void ordered() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = producer();
        for (int i = 0; i < 40; i++) {
            producer.send(message(topic, (i % 4) + ":" + (i / 4)), (queues, message, argument) ->
                queues.get((Integer) argument % queues.size()), i % 4);
        }
        Map<String, Integer> last = new ConcurrentHashMap<>();
        List<String> wrong = new CopyOnWriteArrayList<>();
        CountDownLatch all = new CountDownLatch(40);
        DefaultMQPushConsumer consumer = pushConsumer(group(), topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                String[] parts = body(message).split(":");
                int number = Integer.parseInt(parts[1]);
                if (number != last.getOrDefault(parts[0], -1) + 1) {
                    wrong.add(body(message));
                }
                last.put(parts[0], number);
                all.countDown();
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        check(all.await(WAIT_MS, TimeUnit.MILLISECONDS), "missing " + all.getCount());
        check(wrong.isEmpty(), "out of order " + wrong);
    }

    static void delay() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "now"));
        Map<String, Long> arrived = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = pushConsumer(group(), topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> arrived.put(body(message), System.currentTimeMillis()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        until(() -> arrived.containsKey("now"), "first message");
        Message one = message(topic, "one");
        one.setDelayTimeLevel(1);
        Message two = message(topic, "two");
        two.setDelayTimeLevel(2);
        long sent = System.currentTimeMillis();
        producer.send(one);
        producer.send(two);
        until(() -> arrived.containsKey("one") && arrived.containsKey("two"), "delayed messages");
        long first = arrived.get("one") - sent;
        long second = arrived.get("two") - sent;
        check(first >= 950 && first < 2500, "level 1 after " + first + " ms");
        check(second >= 4950 && second < 6500, "level 2 after " + second + " ms");
    }

    static void transaction(LocalTransactionState outcome) throws Exception {
        String topic = topic();
        producer().send(message(topic, "plain"));
        TransactionMQProducer producer = new TransactionMQProducer(group());
        AtomicInteger checks = new AtomicInteger();
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return outcome;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                checks.incrementAndGet();
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        start(producer);
        Set<String> seen = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = pushConsumer(group(), topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> seen.add(body(message)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        until(() -> seen.contains("plain"), "plain message");
        Message half = message(topic, "half");
        half.setKeys("tx");
        producer.sendMessageInTransaction(half, null);
        if (outcome == LocalTransactionState.ROLLBACK_MESSAGE) {
            producer().send(message(topic, "after"));
            until(() -> seen.contains("after"), "message after the rollback");
            check(!seen.contains("half"), "a rolled-back message was delivered");
        } else {
            until(() -> seen.contains("half"), "committed message", 3 * WAIT_MS);
            check(outcome == LocalTransactionState.COMMIT_MESSAGE || checks.get() > 0, "no check");
        }
    }

    // ---------------------------------------------------------------- consuming

    static void pushConcurrent() throws Exception {
        String topic = topic();
        fill(topic, 300);
        equal(bodies(consume(topic, "*", 300)), numbered("m", 300));
    }

    static void pushOrderly() throws Exception {
        String topic = topic();
        fill(topic, 100);
        List<MessageExt> received = new CopyOnWriteArrayList<>();
        AtomicBoolean failedOnce = new AtomicBoolean();
        DefaultMQPushConsumer consumer = pushConsumer(group(), topic, "*");
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            if (failedOnce.compareAndSet(false, true)) {
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            received.addAll(messages);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        until(() -> received.size() >= 100, "messages", WAIT_MS);
        Map<Integer, Long> last = new HashMap<>();
        for (MessageExt message : received) {
            long before = last.getOrDefault(message.getQueueId(), -1L);
            check(message.getQueueOffset() == before + 1, "order in queue " + message.getQueueId());
            last.put(message.getQueueId(), message.getQueueOffset());
        }
    }

    static void twoInstances() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "m0"));
        String group = group();
        Set<String> seen = ConcurrentHashMap.newKeySet();
        AtomicInteger byFirst = new AtomicInteger();
        AtomicInteger bySecond = new AtomicInteger();
        DefaultMQPushConsumer first = counting(group, topic, seen, byFirst);
        DefaultMQPushConsumer second = counting(group, topic, seen, bySecond);
        first.start();
        second.start();
        until(() -> queuesOf(first, topic) == 2 && queuesOf(second, topic) == 2, "two queues each");
        for (int i = 1; i < 101; i++) {
            producer.send(message(topic, "m" + i));
        }
        until(() -> seen.size() == 101, "messages to both");
        check(byFirst.get() > 0 && bySecond.get() > 0, "shared " + byFirst + "/" + bySecond);
        first.shutdown();
        until(() -> queuesOf(second, topic) == 4, "take-over");
        for (int i = 101; i < 151; i++) {
            producer.send(message(topic, "m" + i));
        }
        until(() -> seen.size() == 151, "messages after the take-over");
    }

    static void broadcasting() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "m0"));
        String group = group();
        List<Set<String>> seen = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            Set<String> mine = ConcurrentHashMap.newKeySet();
            seen.add(mine);
            DefaultMQPushConsumer consumer = counting(group, topic, mine, new AtomicInteger());
            consumer.setInstanceName(group + i);
            consumer.setMessageModel(broadcastingModel());
            consumer.start();
        }
        for (int i = 1; i < 20; i++) {
            producer.send(message(topic, "m" + i));
        }
        until(() -> seen.get(0).size() == 20 && seen.get(1).size() == 20, "all messages to both");
    }

    static void retry() throws Exception {
        String topic = topic();
        producer().send(message(topic, "again"));
        List<Integer> times = new CopyOnWriteArrayList<>();
        List<String> topics = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = pushConsumer(group(), topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            times.add(messages.get(0).getReconsumeTimes());
            topics.add(messages.get(0).getTopic());
            context.setDelayLevelWhenNextConsume(1);
            return times.size() < 3 ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        // The client may learn the route of its retry topic only with its next poll, after 30 s.
        until(() -> times.size() == 3, "third attempt", 3 * WAIT_MS);
        equal(times, Arrays.asList(0, 1, 2));
        equal(new HashSet<>(topics), Collections.singleton(topic));
    }

    static void deadLetter() throws Exception {
        String topic = topic();
        String group = group();
        producer().send(message(topic, "never"));
        AtomicInteger attempts = new AtomicInteger();
        DefaultMQPushConsumer consumer = pushConsumer(group, topic, "*");
        consumer.setMaxReconsumeTimes(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            attempts.incrementAndGet();
            context.setDelayLevelWhenNextConsume(1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        until(() -> attempts.get() == 2, "second attempt", 3 * WAIT_MS);
        List<MessageExt> dead = consume("%DLQ%" + group, "*", 1);
        equal(body(dead.get(0)), "never");
        equal(dead.get(0).getProperty("RETRY_TOPIC"), topic);
    }

    static void tagFilter() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = producer();
        String[] tags = {"red", "green", "blue", null, "Aa", "BB"};
        for (String tag : tags) {
            Message message = message(topic, "m-" + tag);
            message.setTags(tag);
            producer.send(message);
        }
        equal(bodies(consume(topic, "red || blue", 2)), set("m-red", "m-blue"));
        equal(bodies(consume(topic, "Aa", 1)), set("m-Aa"));
        equal(bodies(consume(topic, "*", 6)).size(), 6);
    }

    static void sqlFilter() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = producer();
        for (int i = 0; i < 10; i++) {
            Message message = message(topic, "m" + i);
            message.setTags(i % 2 == 0 ? "even" : "odd");
            message.putUserProperty("price", Integer.toString(i));
            producer.send(message);
        }
        List<MessageExt> received = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group());
        prepare(consumer);
        consumer.subscribe(topic, MessageSelector.bySql("price >= 3 AND TAGS = 'odd' AND price <> 7"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            received.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        until(() -> received.size() >= 3, "matching messages");
        equal(bodies(received), set("m3", "m5", "m9"));
        try {
            DefaultMQPushConsumer bad = new DefaultMQPushConsumer(group());
            prepare(bad);
            bad.subscribe(topic, MessageSelector.bySql("price >"));
            bad.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
            bad.start();
        } catch (Exception expected) {
            return;
        }
        throw new AssertionError("a bad expression was accepted");
    }

    @SuppressWarnings("deprecation")
    static void pull() throws Exception {
        String topic = topic();
        fill(topic, 40);
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group());
        consumer.setNamesrvAddr(namesrv);
        consumer.start();
        CLOSERS.add(consumer::shutdown);
        Set<String> seen = new HashSet<>();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            long offset = consumer.minOffset(queue);
            long end = consumer.maxOffset(queue);
            while (offset < end) {
                PullResult result = consumer.pull(queue, "*", offset, 32);
                equal(result.getPullStatus(), PullStatus.FOUND);
                result.getMsgFoundList().forEach(message -> seen.add(body(message)));
                offset = result.getNextBeginOffset();
            }
            PullResult atEnd = consumer.pull(queue, "*", offset, 32);
            equal(atEnd.getPullStatus(), PullStatus.NO_NEW_MSG);
            PullResult beyond = consumer.pull(queue, "*", offset + 1000, 32);
            equal(beyond.getPullStatus(), PullStatus.OFFSET_ILLEGAL);
            equal(beyond.getNextBeginOffset(), end);
            consumer.updateConsumeOffset(queue, offset);
        }
        equal(seen, numbered("m", 40));
    }

    static void litePullSubscribe() throws Exception {
        String topic = topic();
        fill(topic, 40);
        DefaultLitePullConsumer consumer = litePull();
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.start();
        equal(poll(consumer, 40), numbered("m", 40));
    }

    static void litePullAssign() throws Exception {
        String topic = topic();
        fill(topic, 40);
        DefaultLitePullConsumer consumer = litePull();
        consumer.setAutoCommit(false);
        consumer.start();
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
        consumer.assign(queues);
        for (MessageQueue queue : queues) {
            consumer.seekToBegin(queue);
        }
        equal(poll(consumer, 40), numbered("m", 40));
        consumer.commitSync();
        MessageQueue one = queues.iterator().next();
        consumer.pause(Collections.singletonList(one));
        consumer.seek(one, 3);
        consumer.resume(Collections.singletonList(one));
        equal(poll(consumer, 7).size(), 7);
        until(() -> consumer.committed(one) == 10, "committed offset");
    }

    static void requestReply() throws Exception {
        String topic = topic();
        producer().send(message(topic, "first"));
        // Its first request introduces it to the broker; a send before that would not, and the
        // broker has to know whom to give the reply to.
        DefaultMQProducer requester = producer();
        DefaultMQProducer replier = producer();
        DefaultMQPushConsumer consumer = pushConsumer(group(), topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                if (message.getProperty("CORRELATION_ID") == null) {
                    continue;
                }
                try {
                    byte[] answer = ("re: " + body(message)).getBytes(StandardCharsets.UTF_8);
                    replier.send(MessageUtil.createReplyMessage(message, answer), 20_000);
                } catch (Exception failure) {
                    failure.printStackTrace();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        until(() -> queuesOf(consumer, topic) == 4, "assignment");
        Message reply = requester.request(message(topic, "question"), 20_000);
        equal(body(reply), "re: question");
    }

    // ------------------------------------------------------------------ looking

    @SuppressWarnings("deprecation")
    static void offsetsByTime() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "first"));
        MessageQueue queue = producer.fetchPublishMessageQueues(topic).get(0);
        for (int i = 0; i < 3; i++) {
            producer.send(message(topic, "early"), queue);
        }
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group());
        consumer.setNamesrvAddr(namesrv);
        consumer.start();
        CLOSERS.add(consumer::shutdown);
        long boundary = consumer.maxOffset(queue);
        Thread.sleep(20);
        long now = System.currentTimeMillis();
        Thread.sleep(20);
        for (int i = 0; i < 3; i++) {
            producer.send(message(topic, "late"), queue);
        }
        equal(consumer.searchOffset(queue, now), boundary);
        equal(consumer.searchOffset(queue, 0), 0L);
        equal(consumer.minOffset(queue), 0L);
        check(consumer.earliestMsgStoreTime(queue) <= now, "earliest time");
    }

    static void offsetReset() throws Exception {
        String topic = topic();
        String group = group();
        fill(topic, 20);
        Set<String> seen = ConcurrentHashMap.newKeySet();
        AtomicInteger count = new AtomicInteger();
        DefaultMQPushConsumer consumer = counting(group, topic, seen, count);
        consumer.start();
        until(() -> count.get() == 20, "first delivery");
        consumer.getDefaultMQPushConsumerImpl().getOffsetStore().persistAll(
            new HashSet<>(consumer.fetchSubscribeMessageQueues(topic)));
        MQClientInstance instance = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory();
        String broker = instance.findBrokerAddressInPublish(
            consumer.fetchSubscribeMessageQueues(topic).iterator().next().getBrokerName());
        Map<MessageQueue, Long> offsets = instance.getMQClientAPIImpl()
            .invokeBrokerToResetOffset(broker, topic, group, 0, true, 10_000);
        equal(new HashSet<>(offsets.values()), Collections.singleton(0L));
        // The client stops, forgets and starts again; it takes some ten seconds over that.
        until(() -> count.get() >= 40, "second delivery", 2 * WAIT_MS);
        equal(seen, numbered("m", 20));
    }

    static void queryById() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = producer();
        SendResult result = producer.send(message(topic, "findable"));
        MessageExt found = view(producer, topic, result.getOffsetMsgId());
        equal(body(found), "findable");
    }

    static void queryByUniqueKey() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = producer();
        SendResult result = producer.send(message(topic, "findable"));
        AtomicReference<MessageExt> found = new AtomicReference<>();
        until(() -> {
            try {
                found.set(view(producer, topic, result.getMsgId()));
            } catch (Exception notYet) {
                return false;
            }
            return found.get() != null;
        }, "message by unique key");
        equal(body(found.get()), "findable");
    }

    static void queryByKey() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = producer();
        for (int i = 0; i < 3; i++) {
            Message message = message(topic, "k" + i);
            message.setKeys(Arrays.asList("order-7", "line-" + i));
            producer.send(message);
        }
        long end = System.currentTimeMillis() + 60_000;
        until(() -> producer.queryMessage(topic, "order-7", 32, 0, end).getMessageList().size() == 3,
            "messages by key");
        QueryResult one = producer.queryMessage(topic, "line-1", 32, 0, end);
        equal(bodies(one.getMessageList()), set("k1"));
    }

    static void trace() throws Exception {
        String topic = topic();
        DefaultMQProducer producer = new DefaultMQProducer(group(), true, traceTopic());
        start(producer);
        SendResult result = producer.send(message(topic, "traced"));
        DefaultMQProducer plain = producer();
        long end = System.currentTimeMillis() + 3_600_000;
        until(() -> {
            for (MessageExt found : plain.queryMessage(traceTopic(), result.getMsgId(), 8, 0, end)
                .getMessageList()) {
                if (body(found).startsWith("Pub")) {
                    return true;
                }
            }
            return false;
        }, "trace record");
    }

    static String traceTopic() {
        return "Trace" + RUN;
    }

    @SuppressWarnings("deprecation")
    static void namespace() throws Exception {
        String topic = topic();
        String space = "ns" + RUN;
        DefaultMQProducer producer = new DefaultMQProducer(space, group());
        start(producer);
        producer.send(message(topic, "inside"));
        producer().send(message(topic, "outside"));
        Set<String> seen = ConcurrentHashMap.newKeySet();
        Set<String> topics = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(space, group());
        prepare(consumer);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                seen.add(body(message));
                topics.add(message.getTopic());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        until(() -> !seen.isEmpty(), "message in the namespace");
        equal(seen, set("inside"));
        equal(topics, set(topic));
        equal(bodies(consume(space + "%" + topic, "*", 1)), set("inside"));
    }

    static void largeBody() throws Exception {
        String topic = topic();
        byte[] large = new byte[3_900_000];
        new java.util.Random(7).nextBytes(large);
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "small"));
        producer.send(new Message(topic, large));
        for (MessageExt message : consume(topic, "*", 2)) {
            if (message.getBody().length != 5) {
                check(Arrays.equals(message.getBody(), large), "large body differs");
            }
        }
        try {
            producer.setMaxMessageSize(10_000_000);
            byte[] huge = new byte[5_000_000];
            new java.util.Random(8).nextBytes(huge);
            producer.send(new Message(topic, huge));
        } catch (org.apache.rocketmq.client.exception.MQBrokerException refused) {
            equal(refused.getResponseCode(), 13);
            return;
        }
        throw new AssertionError("a body above the broker's limit was taken");
    }

    static void compressedBody() throws Exception {
        String topic = topic();
        byte[] text = new byte[100_000];
        Arrays.fill(text, (byte) 'x');
        producer().send(new Message(topic, text));
        MessageExt message = consume(topic, "*", 1).get(0);
        check(Arrays.equals(message.getBody(), text), "decompressed body differs");
        check(message.getStoreSize() < 5_000, "stored compressed: " + message.getStoreSize());
    }

    // ------------------------------------------------------------------ helpers

    interface Condition {
        boolean holds() throws Exception;
    }

    static String topic() {
        return "F" + RUN + "_" + NUMBER.incrementAndGet();
    }

    static String group() {
        return "G" + RUN + "_" + NUMBER.incrementAndGet();
    }

    static Message message(String topic, String body) {
        return new Message(topic, body.getBytes(StandardCharsets.UTF_8));
    }

    static String body(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    static DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group());
        start(producer);
        return producer;
    }

    /** Machines under test are busy machines: the usual three seconds say nothing here. */
    static void start(DefaultMQProducer producer) throws Exception {
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(30_000);
        producer.setMqClientApiTimeout(20_000);
        producer.start();
        CLOSERS.add(producer::shutdown);
    }

    static void fill(String topic, int count) throws Exception {
        DefaultMQProducer producer = producer();
        for (int i = 0; i < count; i++) {
            producer.send(message(topic, "m" + i));
        }
    }

    static void prepare(DefaultMQPushConsumer consumer) {
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        CLOSERS.add(consumer::shutdown);
    }

    static DefaultMQPushConsumer pushConsumer(String group, String topic, String tags) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        prepare(consumer);
        consumer.subscribe(topic, tags);
        return consumer;
    }

    static DefaultMQPushConsumer counting(String group, String topic, Set<String> seen,
        AtomicInteger count) throws Exception {
        DefaultMQPushConsumer consumer = pushConsumer(group, topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                seen.add(body(message));
                count.incrementAndGet();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        return consumer;
    }

    static DefaultLitePullConsumer litePull() {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group());
        consumer.setNamesrvAddr(namesrv);
        CLOSERS.add(consumer::shutdown);
        return consumer;
    }

    static Set<String> poll(DefaultLitePullConsumer consumer, int count) {
        Set<String> seen = new HashSet<>();
        int received = 0;
        long deadline = System.currentTimeMillis() + WAIT_MS;
        while (received < count && System.currentTimeMillis() < deadline) {
            for (MessageExt message : consumer.poll(500)) {
                seen.add(body(message));
                received++;
            }
        }
        return seen;
    }

    static List<MessageExt> consume(String topic, String tags, int count) throws Exception {
        List<MessageExt> received = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = pushConsumer(group(), topic, tags);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            received.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        until(() -> received.size() >= count, count + " messages");
        consumer.shutdown();
        check(received.size() == count, "wanted " + count + ", got " + received.size());
        return received;
    }

    static long queuesOf(DefaultMQPushConsumer consumer, String topic) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable()
            .keySet().stream().filter(queue -> queue.getTopic().equals(topic)).count();
    }

    /** The class of the message model moved between packages from 4.x to 5.x. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static <T> T broadcastingModel() throws Exception {
        for (String name : new String[] {
            "org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel",
            "org.apache.rocketmq.common.protocol.heartbeat.MessageModel"}) {
            try {
                return (T) Enum.valueOf((Class) Class.forName(name), "BROADCASTING");
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new IllegalStateException("no message model");
    }

    /** Viewing by id lost its one-argument form in 5.x. */
    static MessageExt view(DefaultMQProducer producer, String topic, String id) throws Exception {
        return producer.viewMessage(topic, id);
    }

    static void until(Condition condition, String what) throws Exception {
        until(condition, what, WAIT_MS);
    }

    static void until(Condition condition, String what, int withinMs) throws Exception {
        long deadline = System.currentTimeMillis() + withinMs;
        Exception last = null;
        while (System.currentTimeMillis() < deadline) {
            try {
                if (condition.holds()) {
                    return;
                }
            } catch (Exception notYet) {
                last = notYet;
            }
            Thread.sleep(20);
        }
        throw new AssertionError("not within " + withinMs + " ms: " + what
            + (last == null ? "" : " (" + last + ")"));
    }

    static Set<String> bodies(Collection<MessageExt> messages) {
        Set<String> bodies = new HashSet<>();
        messages.forEach(message -> bodies.add(body(message)));
        return bodies;
    }

    static Set<String> numbered(String prefix, int count) {
        Set<String> names = new HashSet<>();
        for (int i = 0; i < count; i++) {
            names.add(prefix + i);
        }
        return names;
    }

    static Set<String> set(String... values) {
        return new HashSet<>(Arrays.asList(values));
    }

    static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    static void equal(Object actual, Object wanted) {
        if (!actual.equals(wanted)) {
            throw new AssertionError("wanted " + wanted + ", got " + actual);
        }
    }

    static String escaped(String text) {
        return text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ").replace("\t", " ");
    }
}
