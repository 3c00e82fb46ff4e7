import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Share consumers of the Java client that follow commands; see tests/kafka/share_drivers.py. */
public final class ShareMembers {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Properties properties = new Properties();
    private final Map<String, Member> members = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        ShareMembers program = new ShareMembers();
        program.properties.put("bootstrap.servers", arguments[0]);
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            program.follow(JSON.readTree(line));
        }
        System.exit(0);
    }

    private void follow(JsonNode command) {
        Member member = members.computeIfAbsent(command.get("member").asText(), name -> new Member());
        member.thread.submit(() -> {
            Map<String, Object> answer = new HashMap<>();
            answer.put("id", command.get("id").asInt());
            try {
                answer.put("result", member.done(command));
            } catch (Exception error) {
                Errors code = Errors.forException(error);
                boolean isKnown = code != Errors.UNKNOWN_SERVER_ERROR;
                answer.put("error", isKnown ? code.name() : String.valueOf(error));
            }
            show(answer);
        });
    }

    private static synchronized void show(Map<String, Object> answer) {
        try {
            System.out.println(JSON.writeValueAsString(answer));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private final class Member {
        private final ExecutorService thread = Executors.newSingleThreadExecutor();
        private final Map<String, ConsumerRecord<String, String>> held = new HashMap<>();
        private KafkaShareConsumer<String, String> consumer;

        Object done(JsonNode command) {
            switch (command.get("do").asText()) {
                case "open" -> open(command);
                case "poll" -> {
                    return poll(command.get("count").asInt(), command.get("ms").asLong());
                }
                case "acknowledge" -> acknowledge(command.get("kinds"));
                case "renew" -> {
                    return renew(command.get("places"));
                }
                case "commit" -> {
                    return commit();
                }
                case "subscribe" -> consumer.subscribe(texts(command.get("topics")));
                case "close" -> consumer.close(Duration.ofSeconds(20));
                default -> throw new IllegalArgumentException(command.toString());
            }
            return null;
        }

        private void open(JsonNode command) {
            Properties given = new Properties();
            given.putAll(properties);
            given.put("group.id", command.get("group").asText());
            given.put("share.acknowledgement.mode", command.get("mode").asText());
            given.put("share.acquire.mode", command.get("acquire").asText());
            given.put("max.poll.records", command.get("records").asInt());
            consumer = new KafkaShareConsumer<>(given, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(texts(command.get("topics")));
        }

        private List<Object> poll(int count, long ms) {
            List<ConsumerRecord<String, String>> found = new ArrayList<>();
            long end = System.nanoTime() + ms * 1_000_000;
            do {
                consumer.poll(Duration.ofMillis(Math.min(ms, 200))).forEach(found::add);
            } while (found.size() < count && System.nanoTime() < end);
            found.forEach(each -> held.put(place(each), each));
            return shown(found);
        }

        private void acknowledge(JsonNode kinds) {
            kinds.fields().forEachRemaining(each ->
                    consumer.acknowledge(held.get(each.getKey()), AcknowledgeType.valueOf(each.getValue().asText())));
        }

        /** Renew locks; renewed records are returned by a poll, which must happen before they can be acknowledged. */
        private Map<String, String> renew(JsonNode places) {
            List<String> names = texts(places);
            names.forEach(each -> consumer.acknowledge(held.get(each), AcknowledgeType.RENEW));
            Map<String, String> outcome = commit();
            if (outcome.values().stream().allMatch(Objects::isNull)) {
                poll(names.size(), 20_000);
            }
            return outcome;
        }

        private Map<String, String> commit() {
            Map<String, String> shown = new TreeMap<>();
            consumer.commitSync(Duration.ofSeconds(20)).forEach((partition, error) -> shown.put(
                    partition.topic() + "/" + partition.partition(),
                    error.map(each -> Errors.forException(each).name()).orElse(null)));
            return shown;
        }

        private List<Object> shown(List<ConsumerRecord<String, String>> records) {
            List<Object> shown = new ArrayList<>();
            records.sort(Comparator.comparing((ConsumerRecord<String, String> each) -> each.topic())
                    .thenComparing(ConsumerRecord::partition).thenComparing(ConsumerRecord::offset));
            for (var each : records) {
                shown.add(List.of(place(each), each.value(), each.deliveryCount().orElse((short) 0)));
            }
            return shown;
        }
    }

    private static String place(ConsumerRecord<String, String> record) {
        return record.topic() + "/" + record.partition() + "/" + record.offset();
    }

    private static List<String> texts(JsonNode array) {
        List<String> texts = new ArrayList<>();
        array.forEach(each -> texts.add(each.asText()));
        return texts;
    }
}
