import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.util.List;
import org.apache.kafka.common.utils.AppInfoParser;

/** Golden vectors for the messages of an older release, next to those of a newer one. */
public final class GoldenMessages {
    public static void main(String[] args) throws Exception {
        long seed = 1;
        int per = 3;
        Path dir = null;
        Path jars = null;
        Path beside = null;
        for (int i = 0; i + 1 < args.length; i += 2) {
            switch (args[i]) {
                case "--seed": seed = Long.parseLong(args[i + 1]); break;
                case "--per": per = Integer.parseInt(args[i + 1]); break;
                case "--out": dir = Path.of(args[i + 1]); break;
                case "--jars": jars = Path.of(args[i + 1]); break;
                case "--beside": beside = Path.of(args[i + 1]); break;
                default: throw new IllegalArgumentException("unknown option " + args[i]);
            }
        }
        if (dir == null || jars == null || beside == null) {
            System.err.println("usage: --jars FOLDER --beside FOLDER --out FOLDER [--seed N] [--per K]");
            System.exit(2);
        }
        List<Def> defs = Def.load(jars);
        Out out = new Out(dir, beside);
        Messages messages = new Messages(out, defs, seed, per);
        messages.laterTags.putAll(Parity.laterTags(beside.resolve("schema_parity.json"), defs));
        messages.all();
        new Rules(out, messages).all();
        Parity.write(out, defs);
        out.close();

        ObjectNode coverage = Out.obj();
        coverage.put("kafka_version", AppInfoParser.getVersion());
        coverage.put("seed", seed);
        coverage.put("per", per);
        coverage.put("definitions", defs.size());
        coverage.put("messages_covered", messages.messageCount);
        coverage.put("message_versions_covered", messages.versionCount);
        coverage.set("skipped", messages.skipped);
        coverage.set("notes", messages.problems);
        coverage.set("files", out.counts());
        coverage.set("same_beside", out.same);
        out.json("coverage.json", coverage);
        System.out.println(coverage.get("files").toPrettyString());
    }
}
