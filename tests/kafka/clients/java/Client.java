import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A user of the Java client, with its defaults. See tests/kafka/programs.py for the scenarios. */
public final class Client {
    private static final int RECORDS = 200;
    private static final int RECORDS_OF_A_LINE = 500;

    private Client() {}

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        String topic = arguments[2];
        switch (arguments[1]) {
            case "admin" -> System.out.println(admin(properties, topic));
            case "produce" -> System.out.println(produce(properties, topic, arguments[3]));
            case "group" -> group(properties, topic, arguments[3], Integer.parseInt(arguments[4]));
            case "stream" -> System.out.println(stream(properties, topic));
            case "follow" -> System.out.println(follow(properties, topic, Integer.parseInt(arguments[3])));
            case "transactions" -> System.out.println(transactions(properties, topic));
            case "mistake" -> System.out.println(mistake(properties, topic, arguments[3]));
            default -> throw new IllegalArgumentException(arguments[1]);
        }
    }

    private static String admin(Properties properties, String topic) throws Exception {
        try (Admin admin = Admin.create(properties)) {
            NewTopic wanted = new NewTopic(topic, Optional.of(3), Optional.empty());
            admin.createTopics(List.of(wanted.configs(Map.of("retention.ms", "3600000")))).all().get();
            int partitions =
                    admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            String config = admin.describeConfigs(List.of(resource)).all().get().get(resource)
                    .get("retention.ms").value();
            admin.deleteTopics(List.of(topic)).all().get();
            boolean left = admin.listTopics().names().get().contains(topic);
            return "{\"partitions\": %d, \"config\": %s, \"left\": %b}".formatted(partitions, quoted(config), left);
        }
    }

    private static String produce(Properties properties, String topic, String codec) throws Exception {
        properties.put("compression.type", codec);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < RECORDS; number++) {
                String value = ("value " + number + " ").repeat(20);
                sent.add(producer.send(new ProducerRecord<>(topic, "key " + number, value)));
            }
        }
        List<String> places = new ArrayList<>();
        for (var each : sent) {
            places.add("[%d, %d]".formatted(each.get().partition(), each.get().offset()));
        }
        return "{\"places\": " + places + "}";
    }

    private static void group(Properties properties, String topic, String protocol, int count) throws Exception {
        properties.put("group.id", topic);
        properties.put("group.protocol", protocol);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        List<String> found = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> handled = new HashMap<>();
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(Set.of(topic));
            while (found.size() < count) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofSeconds(1))) {
                    if (found.size() < count) {
                        found.add("[%d, %d, %s, %s]".formatted(
                                each.partition(), each.offset(), quoted(each.key()), quoted(each.value())));
                        TopicPartition partition = new TopicPartition(topic, each.partition());
                        handled.put(partition, new OffsetAndMetadata(each.offset() + 1));
                    }
                }
            }
            consumer.commitSync(handled);
            System.out.println("{\"records\": " + found + "}");
            System.in.readAllBytes();
        }
    }

    private static String stream(Properties properties, String topic) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        List<String> failed = new ArrayList<>();
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            while (lines.readLine() != null) {
                for (int number = 0; number < RECORDS_OF_A_LINE; number++) {
                    String value = String.valueOf(sent.size());
                    sent.add(producer.send(new ProducerRecord<>(topic, "key " + value, value)));
                }
            }
            for (var each : sent) {
                try {
                    each.get();
                } catch (ExecutionException error) {
                    failed.add(quoted(String.valueOf(error.getCause())));
                }
            }
        }
        return "{\"sent\": %d, \"failed\": %s}".formatted(sent.size(), failed);
    }

    private static String follow(Properties properties, String topic, int count) {
        properties.put("group.id", topic);
        properties.put("auto.offset.reset", "earliest");
        Set<String> found = new HashSet<>();
        int read = 0;
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(Set.of(topic));
            while (found.size() < count) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofSeconds(1))) {
                    found.add(each.value());
                    read++;
                }
            }
        }
        return "{\"different\": %d, \"read\": %d}".formatted(found.size(), read);
    }

    private static String transactions(Properties properties, String topic) {
        properties.put("transactional.id", topic);
        var text = new StringSerializer();
        try (var producer = new KafkaProducer<>(properties, text, text);
                var other = new KafkaProducer<>(properties, text, text)) {
            producer.initTransactions();
            producer.beginTransaction();
            for (int number = 0; number < 10; number++) {
                producer.send(new ProducerRecord<>(topic + "-out", "kept " + number));
            }
            var offsets = Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(5));
            producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(topic));
            producer.commitTransaction();
            producer.beginTransaction();
            for (int number = 0; number < 10; number++) {
                producer.send(new ProducerRecord<>(topic + "-out", "dropped " + number));
            }
            producer.flush();
            producer.abortTransaction();
            other.initTransactions();
            try {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic + "-out", "fenced"));
                producer.commitTransaction();
                return "{}";
            } catch (KafkaException error) {
                return "{\"offset\": 5, \"fenced\": %s}".formatted(quoted(error.getClass().getSimpleName()));
            }
        }
    }

    private static String mistake(Properties properties, String topic, String kind) throws Exception {
        properties.put("max.block.ms", kind.equals("unknown topic") ? "1000" : "30000");
        try {
            if (kind.equals("bad config")) {
                try (Admin admin = Admin.create(properties)) {
                    NewTopic wanted = new NewTopic(topic, Optional.of(1), Optional.empty());
                    admin.createTopics(List.of(wanted.configs(Map.of("compression.type", "odd")))).all().get();
                }
            } else {
                try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new ByteArraySerializer())) {
                    producer.send(new ProducerRecord<>(topic, new byte[5000])).get();
                }
            }
            return "{}";
        } catch (ExecutionException error) {
            Errors code = Errors.forException(error.getCause());
            return "{\"error\": %d, \"text\": %s}".formatted(code.code(), quoted(error.getCause().getMessage()));
        }
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
