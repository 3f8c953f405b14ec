import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** The official Java client: Official HOST:PORT ROW ...  See official.py. It speaks TLS by default. */
public class Official {
    interface Row { void run() throws Exception; }

    static final long WITHIN_MS = 60_000;
    static final String RUN = UUID.randomUUID().toString().substring(0, 8);
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static ClientConfiguration configuration;

    static MessageBuilder message(String topic, String body) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setTag("tag").setKeys("key-" + body)
            .addProperty("property", "value").setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    static Producer producer(String topic) throws Exception {
        return PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic)
            .setTransactionChecker(view -> TransactionResolution.COMMIT).build();
    }

    static SimpleConsumer reader(String topic) throws Exception {
        SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration).setConsumerGroup("grpc-" + UUID.randomUUID())
            .setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL)).build();
        consumer.receive(1, Duration.ofSeconds(15));
        return consumer;
    }

    static String body(MessageView view) {
        ByteBuffer buffer = view.getBody();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    static List<String> until(SimpleConsumer consumer, List<String> bodies) throws Exception {
        List<String> found = new ArrayList<>();
        long deadline = System.currentTimeMillis() + WITHIN_MS;
        while (!found.containsAll(bodies)) {
            if (System.currentTimeMillis() > deadline) throw new Exception("only " + found);
            for (MessageView view : consumer.receive(16, Duration.ofSeconds(15))) {
                if (bodies.contains(body(view))) found.add(body(view));
                if (!"tag".equals(view.getTag().orElse("")) || !"value".equals(view.getProperties().get("property")))
                    throw new Exception("another tag or property: " + view);
                consumer.ack(view);
            }
        }
        return found;
    }

    static List<String> numbered(String kind, int count) {
        List<String> bodies = new ArrayList<>();
        for (int number = 0; number < count; number++) bodies.add(RUN + "-" + kind + "-" + number);
        return bodies;
    }

    static void simple() throws Exception {
        List<String> bodies = numbered("simple", 10);
        try (SimpleConsumer read = reader("grpc-normal"); Producer write = producer("grpc-normal")) {
            for (String body : bodies) write.send(message("grpc-normal", body).build());
            until(read, bodies);
        }
    }

    static void push() throws Exception {
        List<String> bodies = numbered("push", 10);
        Set<String> found = ConcurrentHashMap.newKeySet(), failed = ConcurrentHashMap.newKeySet();
        try (PushConsumer consumer = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup("grpc-" + UUID.randomUUID())
                .setSubscriptionExpressions(Collections.singletonMap("grpc-normal", FilterExpression.SUB_ALL))
                .setMessageListener(view -> {
                    if (body(view).endsWith("3") && failed.add(body(view))) return ConsumeResult.FAILURE;
                    found.add(body(view));
                    return ConsumeResult.SUCCESS;
                }).build();
             Producer write = producer("grpc-normal")) {
            Thread.sleep(3000);
            for (String body : bodies) write.send(message("grpc-normal", body).build());
            long deadline = System.currentTimeMillis() + WITHIN_MS;
            while (!found.containsAll(bodies)) {
                if (System.currentTimeMillis() > deadline) throw new Exception("only " + found);
                Thread.sleep(50);
            }
        }
    }

    static void fifo() throws Exception {
        List<String> bodies = numbered("fifo", 20);
        try (SimpleConsumer read = reader("grpc-fifo"); Producer write = producer("grpc-fifo")) {
            for (String body : bodies) write.send(message("grpc-fifo", body).setMessageGroup("one").build());
            List<String> found = until(read, bodies);
            if (!found.equals(bodies)) throw new Exception("in the order " + found);
        }
    }

    static void delay() throws Exception {
        String body = RUN + "-delay";
        try (SimpleConsumer read = reader("grpc-delay"); Producer write = producer("grpc-delay")) {
            long due = System.currentTimeMillis() + 4000;
            write.send(message("grpc-delay", body).setDeliveryTimestamp(due).build());
            until(read, List.of(body));
            if (System.currentTimeMillis() < due - 500) throw new Exception("too early");
        }
    }

    static void transaction() throws Exception {
        try (SimpleConsumer read = reader("grpc-transaction"); Producer write = producer("grpc-transaction")) {
            Transaction rolledBack = write.beginTransaction();
            write.send(message("grpc-transaction", RUN + "-no").build(), rolledBack);
            rolledBack.rollback();
            Transaction committed = write.beginTransaction();
            write.send(message("grpc-transaction", RUN + "-yes").build(), committed);
            committed.commit();
            until(read, List.of(RUN + "-yes"));
        }
    }

    static void orphan() throws Exception {
        try (SimpleConsumer read = reader("grpc-transaction"); Producer write = producer("grpc-transaction")) {
            Message half = message("grpc-transaction", RUN + "-orphan").build();
            write.send(half, write.beginTransaction());
            until(read, List.of(RUN + "-orphan"));
        }
    }

    /** A message that always fails is tried again in the client, then given up; the next one follows. */
    static void fifoPush() throws Exception {
        List<String> bodies = numbered("ordered", 3), seen = Collections.synchronizedList(new ArrayList<>());
        try (PushConsumer consumer = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup("grpc-ordered")
                .setSubscriptionExpressions(Collections.singletonMap("grpc-fifo", FilterExpression.SUB_ALL))
                .setMessageListener(view -> {
                    if (bodies.contains(body(view))) seen.add(body(view));
                    return body(view).equals(bodies.get(1)) ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
                }).build();
             Producer write = producer("grpc-fifo")) {
            Thread.sleep(8000);
            for (String body : bodies) write.send(message("grpc-fifo", body).setMessageGroup("two").build());
            List<String> wanted = List.of(bodies.get(0), bodies.get(1), bodies.get(1), bodies.get(2));
            long deadline = System.currentTimeMillis() + WITHIN_MS;
            while (seen.size() < wanted.size()) {
                if (System.currentTimeMillis() > deadline) throw new Exception("only " + seen);
                Thread.sleep(50);
            }
            if (!seen.equals(wanted)) throw new Exception("in the order " + seen);
        }
    }

    /** Broker and proxy are started again meanwhile; everything that was acknowledged comes. */
    static void resume() throws Exception {
        Set<String> sent = ConcurrentHashMap.newKeySet(), found = ConcurrentHashMap.newKeySet();
        AtomicInteger twice = new AtomicInteger();
        try (PushConsumer consumer = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup("grpc-" + UUID.randomUUID())
                .setSubscriptionExpressions(Collections.singletonMap("grpc-normal", FilterExpression.SUB_ALL))
                .setMessageListener(view -> {
                    if (!found.add(body(view))) twice.incrementAndGet();
                    return ConsumeResult.SUCCESS;
                }).build();
             Producer write = producer("grpc-normal")) {
            Thread.sleep(6000);
            long until = System.currentTimeMillis() + 60_000;
            for (int number = 0; System.currentTimeMillis() < until; number++) {
                String body = RUN + "-resume-" + number;
                try {
                    write.send(message("grpc-normal", body).build());
                    sent.add(body);
                } catch (Exception away) {
                    Thread.sleep(200);
                }
                Thread.sleep(50);
            }
            if (sent.size() < 100) throw new Exception("only " + sent.size() + " sent");
            long deadline = System.currentTimeMillis() + 3 * WITHIN_MS;
            while (!found.containsAll(sent)) {
                if (System.currentTimeMillis() > deadline)
                    throw new Exception(found.size() + " of " + sent.size() + " came");
                Thread.sleep(100);
            }
            // Retried sends and what was in flight.
            if (twice.get() > 64) throw new Exception(twice.get() + " came twice");
        }
    }

    static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "'").replace("\n", " ") + "\"";
    }

    public static void main(String[] arguments) {
        configuration = ClientConfiguration.newBuilder().setEndpoints(arguments[0])
            .setRequestTimeout(Duration.ofSeconds(10)).build();
        Map<String, Row> rows = new LinkedHashMap<>();
        rows.put("simple", Official::simple);
        rows.put("push", Official::push);
        rows.put("fifo", Official::fifo);
        rows.put("delay", Official::delay);
        rows.put("transaction", Official::transaction);
        rows.put("orphan", Official::orphan);
        rows.put("fifo-push", Official::fifoPush);
        rows.put("resume", Official::resume);
        List<String> wanted = new ArrayList<>(arguments.length > 1
            ? List.of(arguments).subList(1, arguments.length) : rows.keySet());
        for (String row : wanted) {
            long began = System.currentTimeMillis();
            String detail = "";
            try {
                rows.get(row).run();
            } catch (Throwable failure) {
                detail = String.valueOf(failure);
            }
            System.out.printf("{\"feature\":\"%s\",\"ok\":%b,\"ms\":%d,\"detail\":%s}%n",
                row, detail.isEmpty(), System.currentTimeMillis() - began, quoted(detail));
        }
        System.exit(0);
    }
}
