import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.springframework.kafka.config.TopicBuilder;
import org.springframework.kafka.core.KafkaAdmin;

/** A user of Spring Kafka's admin, BOOTSTRAP TOPIC: creates and modifies a topic, as an application does at startup. */
public final class Administration {
    private static KafkaAdmin admin;

    private Administration() {}

    public static void main(String[] arguments) {
        admin = new KafkaAdmin(Map.of("bootstrap.servers", arguments[0]));
        admin.setModifyTopicConfigs(true);
        String topic = arguments[1];
        have(TopicBuilder.name(topic).partitions(2).config("retention.ms", "3600000").build());
        awaitPartitions(topic, 2);
        have(TopicBuilder.name(topic).partitions(4).config("segment.bytes", "2097152").build());
        System.out.println(awaitPartitions(topic, 4));
        have(TopicBuilder.name(topic).partitions(3).build());
        have(TopicBuilder.name(topic).config("compression.type", "odd").build());
        have(TopicBuilder.name(topic + "/").build());
        System.out.println(awaitPartitions(topic, 4));
        System.out.println(Optional.ofNullable(admin.clusterId()).isPresent());
    }

    private static void have(NewTopic wanted) {
        try {
            admin.createOrModifyTopics(wanted);
            System.out.println("ok");
        } catch (RuntimeException error) {
            System.out.println(error.getMessage() + ": " + error.getCause());
        }
    }

    /** Kafka's broker learns of a change a moment after the controller made it. */
    private static TopicDescription awaitPartitions(String topic, int count) {
        while (true) {
            try {
                TopicDescription found = admin.describeTopics(topic).get(topic);
                if (found.partitions().size() == count) {
                    return found;
                }
            } catch (RuntimeException error) {
                // the topic does not exist yet
            }
        }
    }
}
