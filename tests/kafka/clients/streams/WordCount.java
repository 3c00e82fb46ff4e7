import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts the words of the topic `lines` into the topic `counts`: BOOTSTRAP APPLICATION FOLDER [KEY=VALUE…]
 *
 * Prints each state that it reaches, after `state: `. It ends when standard input ends, and leaves its group.
 */
public final class WordCount {
    private WordCount() {}

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("application.id", arguments[1]);
        properties.put("state.dir", arguments[2]);
        properties.put("group.protocol", "streams");
        properties.put("commit.interval.ms", "100");
        properties.put("auto.offset.reset", "earliest");
        properties.put("default.key.serde", Serdes.String().getClass());
        properties.put("default.value.serde", Serdes.String().getClass());
        for (String setting : Arrays.copyOfRange(arguments, 3, arguments.length)) {
            String[] parts = setting.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("lines")
                .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split(" ")))
                .groupBy((key, word) -> word, Grouped.as("words"))
                .count(Materialized.as("counted"))
                .toStream()
                .to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setStateListener((after, before) -> System.out.println("state: " + after));
        streams.start();
        while (System.in.read() >= 0) {
            // Only the end matters.
        }
        streams.close(Duration.ofSeconds(30));
    }
}
