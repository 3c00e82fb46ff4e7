import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The table of messages, with the versions, flags and fields of each. */
final class Parity {
    /** The tags that are in a table of messages but not in these definitions, keyed by message. */
    static Map<String, Set<Integer>> laterTags(Path table, List<Def> defs) throws Exception {
        ArrayNode ours = Out.MAPPER.createArrayNode();
        for (Def d : defs) fields(d.fields, d.name + ":", ours);
        Set<String> places = new HashSet<>();
        for (JsonNode f : ours) places.add(place(f, ""));
        Map<String, Set<Integer>> later = new HashMap<>();
        for (JsonNode message : Out.MAPPER.readTree(table.toFile())) {
            String name = message.get("name").asText();
            for (JsonNode f : message.get("fields"))
                if (f.has("tag") && !places.contains(place(f, name + ":"))) later.computeIfAbsent(name, n -> new HashSet<>()).add(f.get("tag").asInt());
        }
        return later;
    }

    private static String place(JsonNode field, String prefix) {
        return prefix + field.get("path").asText() + " " + field.path("tag").asText();
    }

    private static void copy(JsonNode from, ObjectNode to, String key, String as) {
        if (from.has(key)) to.set(as, from.get(key));
    }

    static void write(Out out, List<Def> defs) throws Exception {
        ArrayNode list = Out.MAPPER.createArrayNode();
        for (Def d : defs) {
            ObjectNode n = list.addObject();
            n.put("name", d.name);
            n.put("module", d.module);
            n.put("type", d.type);
            if (d.apiKey != null) n.put("api_key", d.apiKey);
            copy(d.raw, n, "validVersions", "valid_versions");
            copy(d.raw, n, "flexibleVersions", "flexible_versions");
            copy(d.raw, n, "deprecatedVersions", "deprecated_versions");
            copy(d.raw, n, "latestVersionUnstable", "latest_version_unstable");
            copy(d.raw, n, "listeners", "listeners");
            fields(d.fields, "", n.putArray("fields"));
        }
        out.json("schema_parity.json", list);
    }

    private static void fields(List<Def.Field> fields, String path, ArrayNode to) {
        for (Def.Field f : fields) {
            ObjectNode n = to.addObject();
            n.put("path", path + f.name);
            n.put("type", f.type);
            n.put("versions", f.raw.has("versions") ? f.raw.get("versions").asText() : f.raw.path("taggedVersions").asText());
            copy(f.raw, n, "nullableVersions", "nullable_versions");
            copy(f.raw, n, "taggedVersions", "tagged_versions");
            copy(f.raw, n, "flexibleVersions", "flexible_versions");
            copy(f.raw, n, "tag", "tag");
            copy(f.raw, n, "default", "default");
            if (f.ignorable) n.put("ignorable", true);
            if (f.mapKey) n.put("map_key", true);
            if (f.zeroCopy) n.put("zero_copy", true);
            copy(f.raw, n, "entityType", "entity_type");
            if (f.fields != null) fields(f.fields, path + f.name + (f.array ? "[]." : "."), to);
        }
    }
}
