import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * What users of all kinds are let do, through the official client of any release from 4.9 on.
 *
 *   Security NAMESRV plain|tls CASE ...     CASE: row=action,user,secret,topic,group,expected
 *
 * Actions: send, transaction, push, retry, pull. Expected: ok, refused (the broker says so with its
 * code 16), fails (in whatever way). One line of JSON a case, as Features.java prints them.
 */
public class Security {
    static final int WAIT_S = 40;
    static final AtomicInteger NUMBER = new AtomicInteger();
    static final String RUN = Long.toString(System.nanoTime() & 0xFFFFFF, 36);
    static final int NO_PERMISSION = 16;

    static String namesrv;
    static boolean usesTls;

    public static void main(String[] arguments) throws Exception {
        namesrv = arguments[0];
        usesTls = arguments[1].equals("tls");
        boolean allOk = true;
        for (int i = 2; i < arguments.length; i++) {
            int equals = arguments[i].indexOf('=');
            String row = arguments[i].substring(0, equals);
            String[] words = arguments[i].substring(equals + 1).split(",", -1);
            String found;
            try {
                act(words[0], hook(words[1], words[2]), words[3], words[4]);
                found = "ok";
            } catch (MQBrokerException refusal) {
                found = refusal.getResponseCode() == NO_PERMISSION ? "refused" : refusal.toString();
            } catch (MQClientException refusal) {
                found = refusal.getResponseCode() == NO_PERMISSION ? "refused" : "fails: " + refusal;
            } catch (Throwable failure) {
                found = "fails: " + failure;
            }
            boolean ok = words[5].equals("fails") ? !found.equals("ok") : found.equals(words[5]);
            allOk &= ok;
            String detail = ok ? "" : words[5] + " expected, found " + found;
            System.out.println("{\"feature\":\"" + row + "\",\"ok\":" + ok + ",\"ms\":0,\"detail\":\""
                + detail.replace("\\", "/").replace("\"", "'").replaceAll("\\s+", " ") + "\"}");
            System.out.flush();
        }
        System.exit(allOk ? 0 : 1);
    }

    static RPCHook hook(String user, String secret) {
        return user.isEmpty() ? null : new AclClientRPCHook(new SessionCredentials(user, secret));
    }

    static void act(String action, RPCHook hook, String topic, String group) throws Exception {
        if (action.equals("send")) {
            send(hook, topic, "sent-" + NUMBER.incrementAndGet());
        } else if (action.equals("transaction")) {
            transaction(hook, topic, group);
        } else if (action.equals("push")) {
            consume(hook, topic, group, 0);
        } else if (action.equals("retry")) {
            consume(hook, topic, group, 1);
        } else if (action.equals("pull")) {
            pull(hook, topic, group);
        } else {
            throw new IllegalArgumentException(action);
        }
    }

    static String name(String kind) {
        return kind + "-" + RUN + "-" + NUMBER.incrementAndGet();
    }

    static void send(RPCHook hook, String topic, String body) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(name("producers"), hook);
        producer.setNamesrvAddr(namesrv);
        producer.setUseTLS(usesTls);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        try {
            SendResult result = producer.send(message(topic, body));
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException("" + result);
            }
        } finally {
            producer.shutdown();
        }
    }

    static Message message(String topic, String body) {
        return new Message(topic, body.getBytes(StandardCharsets.UTF_8));
    }

    /** Committed by the broker's question: nothing is decided at first. */
    static void transaction(RPCHook hook, String topic, String group) throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        TransactionMQProducer producer = new TransactionMQProducer(name("producers"), hook);
        producer.setNamesrvAddr(namesrv);
        producer.setUseTLS(usesTls);
        producer.setSendMsgTimeout(10_000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message half, Object argument) {
                return LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt half) {
                asked.countDown();
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        String body = name("transaction");
        DefaultMQPushConsumer consumer = consumer(hook, topic, group);
        CountDownLatch delivered = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt each : messages) {
                if (new String(each.getBody(), StandardCharsets.UTF_8).equals(body)) {
                    delivered.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        try {
            consumer.start();
            producer.sendMessageInTransaction(message(topic, body), null);
            require(asked.await(WAIT_S, TimeUnit.SECONDS), "nobody asked about the transaction");
            require(delivered.await(WAIT_S, TimeUnit.SECONDS), "what was committed has not come");
        } finally {
            consumer.shutdown();
            producer.shutdown();
        }
    }

    /** What is sent comes; and once more for each time that it is given back. */
    static void consume(RPCHook hook, String topic, String group, int timesRefused) throws Exception {
        String body = name("consumed");
        CountDownLatch delivered = new CountDownLatch(1 + timesRefused);
        DefaultMQPushConsumer consumer = consumer(hook, topic, group);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            for (MessageExt each : messages) {
                if (new String(each.getBody(), StandardCharsets.UTF_8).equals(body)) {
                    delivered.countDown();
                    if (delivered.getCount() > 0) {
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        try {
            consumer.start();
            send(hook, topic, body);
            require(delivered.await(WAIT_S, TimeUnit.SECONDS), "it has not come");
        } finally {
            consumer.shutdown();
        }
    }

    static DefaultMQPushConsumer consumer(RPCHook hook, String topic, String group) throws Exception {
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(group, hook, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(namesrv);
        consumer.setUseTLS(usesTls);
        consumer.setInstanceName(name("instance"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.subscribe(topic, "*");
        return consumer;
    }

    @SuppressWarnings("deprecation")
    static void pull(RPCHook hook, String topic, String group) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group, hook);
        consumer.setNamesrvAddr(namesrv);
        consumer.setUseTLS(usesTls);
        consumer.setInstanceName(name("instance"));
        consumer.start();
        try {
            Set<MessageQueue> queues = ConcurrentHashMap.newKeySet();
            queues.addAll(consumer.fetchSubscribeMessageQueues(topic));
            for (MessageQueue queue : queues) {
                consumer.pull(queue, "*", 0, 1, 10_000);
            }
        } finally {
            consumer.shutdown();
        }
    }

    static void require(boolean condition, String otherwise) {
        if (!condition) {
            throw new IllegalStateException(otherwise);
        }
    }
}
