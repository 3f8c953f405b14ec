import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The official client's share of a topic that two brokers serve.
 *
 *   java Mixed send NAMESRV TOPIC COUNT             sends j0, j1, ...
 *   java Mixed consume NAMESRV TOPIC COUNT GROUP    until so many different messages have come
 *
 * Both print how many messages went to, or came from, each broker: {"broker-a":20,"broker-b":20}
 */
public class Mixed {
    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[1];
        String topic = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        Map<String, Integer> byBroker = new TreeMap<>();
        if (arguments[0].equals("send")) {
            DefaultMQProducer producer = new DefaultMQProducer("MixedJavaProducer");
            producer.setNamesrvAddr(namesrv);
            producer.setSendMsgTimeout(60_000);
            producer.setMqClientApiTimeout(30_000);
            producer.start();
            for (int i = 0; i < count; i++) {
                byte[] body = ("j" + i).getBytes(StandardCharsets.UTF_8);
                byBroker.merge(producer.send(new Message(topic, body)).getMessageQueue()
                    .getBrokerName(), 1, Integer::sum);
            }
        } else {
            Set<String> seen = ConcurrentHashMap.newKeySet();
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[4]);
            consumer.setNamesrvAddr(namesrv);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                synchronized (byBroker) {
                    for (MessageExt message : messages) {
                        if (seen.add(new String(message.getBody(), StandardCharsets.UTF_8))) {
                            byBroker.merge(message.getBrokerName(), 1, Integer::sum);
                        }
                    }
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            long deadline = System.currentTimeMillis() + 60_000;
            while (seen.size() < count && System.currentTimeMillis() < deadline) {
                Thread.sleep(20);
            }
            consumer.shutdown();
        }
        StringBuilder line = new StringBuilder();
        byBroker.forEach((broker, number) -> line.append(line.length() == 0 ? "" : ",")
            .append('"').append(broker).append("\":").append(number));
        System.out.println("{" + line + "}");
        System.exit(0);
    }
}
