import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * What only clients of RocketMQ 5 can do: pop, messages of any delay, recall, priorities. The same
 * lines and helpers as Features.java.
 */
public class Features5 {
    public static void main(String[] arguments) throws Exception {
        Map<String, Features.Feature> features = new LinkedHashMap<>();
        features.put("timer", Features5::timer);
        features.put("recall", Features5::recall);
        features.put("pop-push", Features5::popPush);
        features.put("pop-two-instances", Features5::popTwoInstances);
        features.put("pop-retry", Features5::popRetry);
        features.put("priority", Features5::priority);
        Features.run(arguments, features);
    }

    static void timer() throws Exception {
        String topic = Features.topic();
        DefaultMQProducer producer = Features.producer();
        Map<String, Long> arrived = listening(topic);
        producer.send(Features.message(topic, "now"));
        Features.until(() -> arrived.containsKey("now"), "first message");
        long sent = System.currentTimeMillis();
        Message seconds = Features.message(topic, "seconds");
        seconds.setDelayTimeSec(3);
        Message millis = Features.message(topic, "millis");
        millis.setDelayTimeMs(2500);
        Message at = Features.message(topic, "at");
        at.setDeliverTimeMs(sent + 4000);
        for (Message message : Arrays.asList(seconds, millis, at)) {
            producer.send(message);
        }
        Features.until(() -> arrived.size() == 4, "timed messages");
        between(arrived.get("seconds") - sent, 2900, 5500);
        between(arrived.get("millis") - sent, 2400, 5000);
        between(arrived.get("at") - sent, 3900, 6500);
    }

    static void recall() throws Exception {
        String topic = Features.topic();
        DefaultMQProducer producer = Features.producer();
        Map<String, Long> arrived = listening(topic);
        producer.send(Features.message(topic, "now"));
        Features.until(() -> arrived.containsKey("now"), "first message");
        Message kept = Features.message(topic, "kept");
        kept.setDelayTimeSec(6);
        Message called = Features.message(topic, "called back");
        called.setDelayTimeSec(6);
        producer.send(kept);
        SendResult result = producer.send(called);
        Features.check(result.getRecallHandle() != null, "no recall handle");
        String id = producer.recallMessage(topic, result.getRecallHandle());
        Features.equal(id, result.getMsgId());
        Features.until(() -> arrived.containsKey("kept"), "the message that was kept");
        Thread.sleep(1500);
        Features.check(!arrived.containsKey("called back"), "a recalled message came");
    }

    static void popPush() throws Exception {
        String topic = Features.topic();
        String group = Features.group();
        Features.fill(topic, 60);
        popping(topic, group);
        Set<String> seen = ConcurrentHashMap.newKeySet();
        AtomicInteger count = new AtomicInteger();
        DefaultMQPushConsumer consumer = Features.counting(group, topic, seen, count);
        consumer.setClientRebalance(false);
        consumer.start();
        Features.until(() -> seen.size() == 60, "60 messages");
        DefaultMQProducer producer = Features.producer();
        long sent = System.currentTimeMillis();
        producer.send(Features.message(topic, "late"));
        Features.until(() -> seen.contains("late"), "a message for a pop that waits");
        between(System.currentTimeMillis() - sent, 0, 2000);
        Features.check(count.get() == 61, "61 messages came " + count.get() + " times");
    }

    static void popTwoInstances() throws Exception {
        String topic = Features.topic();
        String group = Features.group();
        Features.fill(topic, 1);
        popping(topic, group);
        List<Set<String>> seen = new ArrayList<>();
        AtomicInteger count = new AtomicInteger();
        for (int i = 0; i < 2; i++) {
            Set<String> mine = ConcurrentHashMap.newKeySet();
            seen.add(mine);
            DefaultMQPushConsumer consumer = Features.counting(group, topic, mine, count);
            consumer.setClientRebalance(false);
            consumer.setInstanceName("instance" + i);
            consumer.start();
        }
        Features.until(() -> count.get() >= 1, "first message");
        DefaultMQProducer producer = Features.producer();
        for (int i = 0; i < 200; i++) {
            producer.send(Features.message(topic, "n" + i));
        }
        Features.until(() -> count.get() >= 201, "201 messages");
        Set<String> all = new HashSet<>(seen.get(0));
        all.addAll(seen.get(1));
        Features.equal(all.size(), 201);
        Features.check(count.get() == 201, "201 messages came " + count.get() + " times");
    }

    static void popRetry() throws Exception {
        String topic = Features.topic();
        String group = Features.group();
        DefaultMQProducer producer = Features.producer();
        producer.send(Features.message(topic, "again"));
        popping(topic, group);
        List<Integer> times = new CopyOnWriteArrayList<>();
        List<String> topics = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = Features.pushConsumer(group, topic, "*");
        consumer.setClientRebalance(false);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            times.add(message.getReconsumeTimes());
            topics.add(message.getTopic());
            return times.size() < 2 ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        // The first retry comes after ten seconds of invisible time.
        Features.until(() -> times.size() == 2, "second attempt", 2 * Features.WAIT_MS);
        Features.equal(times, Arrays.asList(0, 1));
        Features.equal(new HashSet<>(topics).size(), 1);
    }

    static void priority() throws Exception {
        String topic = Features.topic();
        DefaultMQProducer producer = Features.producer();
        producer.send(Features.message(topic, "first"));
        Message urgent = Features.message(topic, "urgent");
        urgent.setPriority(2);
        Features.equal(producer.send(urgent).getMessageQueue().getQueueId(), 2);
        Message most = Features.message(topic, "most");
        most.setPriority(1000);
        int queues = producer.fetchPublishMessageQueues(topic).size();
        Features.equal(producer.send(most).getMessageQueue().getQueueId(), queues - 1);
    }

    // ------------------------------------------------------------------ helpers

    /** Has a group pop a topic. */
    static void popping(String topic, String group) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(20_000);
        admin.setNamesrvAddr(Features.namesrv);
        admin.setInstanceName("admin" + System.nanoTime());
        admin.start();
        Features.CLOSERS.add(admin::shutdown);
        Set<String> brokers = new HashSet<>();
        admin.examineTopicRouteInfo(topic).getBrokerDatas()
            .forEach(data -> brokers.add(data.selectBrokerAddr()));
        for (String broker : brokers) {
            org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig config =
                new org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig();
            config.setGroupName(group);
            admin.createAndUpdateSubscriptionGroupConfig(broker, config);
            admin.setMessageRequestMode(broker, topic, group, MessageRequestMode.POP, 0, 20_000);
        }
    }

    static Map<String, Long> listening(String topic) throws Exception {
        Map<String, Long> arrived = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = Features.pushConsumer(Features.group(), topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message ->
                arrived.put(Features.body(message), System.currentTimeMillis()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return arrived;
    }

    static void between(long ms, long low, long high) {
        Features.check(ms >= low && ms < high, "after " + ms + " ms, not " + low + " to " + high);
    }
}
