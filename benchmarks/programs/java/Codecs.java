import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Measures the message codec of Apache Kafka for benchmarks/languages.py, which describes how the two communicate. */
public final class Codecs {
    interface Parser {
        ApiMessage parse(ByteBufferAccessor bytes, short version);
    }

    private static final Map<String, Parser> PARSERS = Map.of(
        "MetadataResponse", MetadataResponseData::new,
        "FetchResponse", FetchResponseData::new,
        "ProduceRequest", ProduceRequestData::new,
        "OffsetCommitRequest", OffsetCommitRequestData::new,
        "ApiVersionsResponse", ApiVersionsResponseData::new);

    /** Results are stored here, so that the compiler cannot optimize the work away. */ private static volatile Object
    result;

    /** A message that has been parsed once, and the bytes from which it was parsed. */ private record Task(Parser
    parser, short version, byte[] data, ApiMessage value) {
        static Task open(Path folder, String name, short version) throws Exception {
            byte[] data = Files.readAllBytes(folder.resolve(name + "-" + version));
            Task task = new Task(PARSERS.get(name), version, data, parse(PARSERS.get(name), data, version));
            if (!Arrays.equals(task.build().array(), data)) {
                throw new IllegalStateException(name + " " + version + ": builds different bytes");
            }
            return task;
        }

        static ApiMessage parse(Parser parser, byte[] data, short version) {
            return parser.parse(new ByteBufferAccessor(ByteBuffer.wrap(data)), version);
        }

        ByteBuffer build() {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer bytes = ByteBuffer.allocate(value.size(cache, version));
            value.write(new ByteBufferAccessor(bytes), cache, version);
            return bytes;
        }

        void parseAgain(int calls) {
            for (int call = 0; call < calls; call++) {
                result = parse(parser, data, version);
            }
        }

        void buildAgain(int calls) {
            for (int call = 0; call < calls; call++) {
                result = build();
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        Map<String, Task> tasks = new HashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            short version = Short.parseShort(words[1]);
            int calls = Integer.parseInt(words[3]);
            try {
                String key = words[0] + words[1];
                if (!tasks.containsKey(key)) {
                    tasks.put(key, Task.open(folder, words[0], version));
                }
                Task task = tasks.get(key);
                long start = System.nanoTime();
                if (words[2].equals("parse")) {
                    task.parseAgain(calls);
                } else {
                    task.buildAgain(calls);
                }
                System.out.println(System.nanoTime() - start);
            } catch (Exception error) {
                System.out.println("error " + error);
            }
        }
    }
}
