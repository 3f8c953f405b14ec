import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * Something for mqadmin to look at: a traced producer that has sent 20 messages and a consumer
 * that has consumed them, both connected until this process is ended. Prints the id of the last
 * message when everything is in its place.
 */
public class AdminSubject {
    public static void main(String[] arguments) throws Exception {
        try {
            live(arguments[0]);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    static void live(String namesrv) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("LiveProducer", true, null);
        producer.setNamesrvAddr(namesrv);
        producer.setMqClientApiTimeout(30_000);
        producer.setInstanceName("live-producer");
        producer.setSendMsgTimeout(60_000);
        producer.start();
        SendResult last = null;
        for (int i = 0; i < 20; i++) {
            byte[] body = ("m" + i).getBytes(StandardCharsets.UTF_8);
            last = producer.send(new Message("LiveTopic", "TagL", "k" + i, body),
                (queues, message, number) -> queues.get((Integer) number % queues.size()), i);
        }
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("LiveGroup");
        consumer.setNamesrvAddr(namesrv);
        consumer.setMqClientApiTimeout(30_000);
        consumer.setInstanceName("live-consumer");
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("LiveTopic", "*");
        AtomicInteger count = new AtomicInteger();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            count.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        while (count.get() < 20) {
            Thread.sleep(50);
        }
        // The client learns the route of its retry topic with one of its next polls.
        while (consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable()
            .keySet().stream().noneMatch(queue -> queue.getTopic().startsWith("%RETRY%"))) {
            Thread.sleep(50);
        }
        // Offsets are stored every half second, and the client's first store is after ten.
        Thread.sleep(11_000);
        System.out.println("ready " + last.getMsgId());
        Thread.sleep(3_600_000);
    }
}
