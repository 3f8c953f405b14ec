import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The official client in the middle of faults: says what it was told, and goes on.
 *
 *   java Witness NAMESRV TOPIC GROUP
 *
 * Sends java-1, java-2, ... and consumes the whole topic, until a line comes in; then it consumes
 * only, until another line comes in. Prints
 *
 *   sends BODY
 *   acknowledged QUEUE OFFSET BODY
 *   consumed QUEUE OFFSET BODY       of its own messages
 *   still                            nothing is sent any more
 */
public class Witness {
    private static final int THREADS = 2;
    private static volatile boolean goesOn = true;

    public static void main(String[] arguments) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[2]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setPollNameServerInterval(1_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                if (body.startsWith("java-")) {
                    say("consumed " + message.getQueueId() + " " + message.getQueueOffset() + " " + body);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = new DefaultMQProducer("WitnessProducer");
        producer.setNamesrvAddr(arguments[0]);
        producer.setPollNameServerInterval(1_000);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(2_000);
        producer.start();
        consumer.start();
        AtomicLong number = new AtomicLong();
        Thread[] senders = new Thread[THREADS];
        for (int i = 0; i < THREADS; i++) {
            senders[i] = new Thread(() -> send(producer, arguments[1], number));
            senders[i].start();
        }
        System.in.read();
        goesOn = false;
        for (Thread sender : senders) {
            sender.join();
        }
        say("still");
        System.in.read();
        System.exit(0);
    }

    private static void send(DefaultMQProducer producer, String topic, AtomicLong number) {
        while (goesOn) {
            String body = "java-" + number.incrementAndGet();
            say("sends " + body);
            try {
                SendResult result = producer.send(new Message(topic, body.getBytes(StandardCharsets.UTF_8)));
                if (result.getSendStatus() == SendStatus.SEND_OK) {
                    say("acknowledged " + result.getMessageQueue().getQueueId() + " "
                        + result.getQueueOffset() + " " + body);
                }
            } catch (Exception refused) {
                try {
                    Thread.sleep(20);
                } catch (InterruptedException over) {
                    return;
                }
            }
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
