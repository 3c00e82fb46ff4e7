import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;

/**
 * Calls any operation of Java's Admin with any arguments, and prints everything that the result says.
 *
 * The argument is a JSON object: the properties of each client, keyed by name. The first line of the output has the
 * names of all operations. Each line of standard input is a call;
 * tests/kafka/admin_table/java_calls.py describes its form. Values are built and shown by reflection, so that this
 * program names no operation.
 */
public final class AdminCalls {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String[] PACKAGES = {
        "org.apache.kafka.clients.admin.", "org.apache.kafka.clients.consumer.", "org.apache.kafka.common.",
        "org.apache.kafka.common.acl.", "org.apache.kafka.common.config.", "org.apache.kafka.common.quota.",
        "org.apache.kafka.common.resource.", "org.apache.kafka.common.security.auth."
    };
    private static final Set<String> NOT_SHOWN =
            Set.of("hashCode", "toString", "getClass", "clone", "toFilter", "findIndefiniteField", "matchesAtMostOne",
                    "notify", "notifyAll", "wait", "hmacAsBase64String", "isUnknown");

    /** Numbers between these are the present time, in milliseconds. */
    private static final long TIME_MIN_MS = 1_700_000_000_000L;
    private static final long TIME_MAX_MS = 1_900_000_000_000L;

    /** Values of earlier results, for later calls. */
    private static final Map<String, Object> KEPT = new HashMap<>();

    private AdminCalls() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream output = System.out;
        System.setOut(System.err);
        Map<String, Admin> clients = new HashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        JsonNode properties = JSON.readTree(arguments[0]);
        output.println(JSON.writeValueAsString(operations()));
        output.flush();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode call = JSON.readTree(line);
            String name = call.get("client").asText();
            Object shown;
            try {
                Admin admin = clients.computeIfAbsent(name, key -> created(properties.get(key)));
                shown = shown(admin, call);
            } catch (RuntimeException | ReflectiveOperationException wrong) {
                shown = Map.of("misuse", String.valueOf(wrong)); // of this program
            }
            output.println(JSON.writeValueAsString(shown));
            output.flush();
        }
    }

    /** Returns the names of all operations: the methods that take options. */
    private static Set<String> operations() {
        Set<String> names = new TreeSet<>();
        for (Method method : Admin.class.getMethods()) {
            Type[] types = method.getGenericParameterTypes();
            if (types.length > 0 && isOptions(types[types.length - 1])) {
                names.add(method.getName());
            }
        }
        return names;
    }

    private static Admin created(JsonNode given) {
        Properties properties = new Properties();
        given.properties().forEach(each -> properties.put(each.getKey(), each.getValue().asText()));
        return Admin.create(properties);
    }

    private static Object shown(Admin admin, JsonNode call) throws ReflectiveOperationException {
        Object result;
        try {
            result = called(admin, call);
        } catch (InvocationTargetException raised) {
            return Map.of("raised", text(raised.getCause()));
        }
        for (JsonNode kept : call.path("keep")) {
            KEPT.put(kept.get(0).asText(), follow(result, kept.get(1)));
        }
        if (!call.has("ask")) {
            return show(result);
        }
        Map<String, Object> answers = new TreeMap<>();
        for (JsonNode path : call.get("ask")) {
            answers.put(path.toString(), show(follow(result, path)));
        }
        return answers;
    }

    private static Object called(Admin admin, JsonNode call) throws ReflectiveOperationException {
        String name = call.get("call").asText();
        JsonNode given = call.get("arguments");
        String reasons = "";
        for (Method method : Admin.class.getMethods()) {
            Type[] types = method.getGenericParameterTypes();
            if (!method.getName().equals(name) || types.length != given.size() + 1 || !isOptions(types[given.size()])) {
                continue;
            }
            try {
                Object[] values = Arrays.copyOf(made(given, types), types.length);
                values[given.size()] = options((Class<?>) types[given.size()], call.get("options"));
                return method.invoke(admin, values);
            } catch (IllegalArgumentException other) {
                reasons += "; " + other.getMessage();
            }
        }
        throw new IllegalArgumentException("no overload of " + name + " takes " + given + reasons);
    }

    private static boolean isOptions(Type type) {
        return type instanceof Class<?> found && found.getSimpleName().endsWith("Options");
    }

    private static Object options(Class<?> type, JsonNode given) throws ReflectiveOperationException {
        Object options = type.getConstructor().newInstance();
        return given.isArray() ? made(given, type) : with(options, given);
    }

    /** Follows a path of methods from a result: each is a name, or an array of a name and arguments. */
    private static Object follow(Object start, JsonNode path) throws ReflectiveOperationException {
        Object value = start;
        for (JsonNode step : path) {
            String name = (step.isArray() ? step.get(0) : step).asText();
            List<JsonNode> given = new ArrayList<>();
            for (int index = 1; step.isArray() && index < step.size(); index++) {
                given.add(step.get(index));
            }
            try {
                value = invoked(value, name, JSON.valueToTree(given));
            } catch (InvocationTargetException raised) {
                return raised.getCause();
            }
            try {
                value = value instanceof Future<?> future ? future.get() : value;
            } catch (ExecutionException failed) {
                return failed.getCause();
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        }
        return value;
    }

    private static Object invoked(Object target, String name, JsonNode given) throws ReflectiveOperationException {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == given.size()) {
                try {
                    method.setAccessible(true);
                    return method.invoke(target, made(given, method.getGenericParameterTypes()));
                } catch (IllegalArgumentException other) {
                    // another overload may take them
                }
            }
        }
        throw new IllegalArgumentException(target.getClass() + " has no " + name + " that takes " + given);
    }

    private static Object[] made(JsonNode given, Type[] types) throws ReflectiveOperationException {
        Object[] values = new Object[given.size()];
        for (int index = 0; index < values.length; index++) {
            values[index] = made(given.get(index), types[index]);
        }
        return values;
    }

    private static Object made(JsonNode given, Type type) throws ReflectiveOperationException {
        if (given.isNull()) {
            return type instanceof ParameterizedType found && found.getRawType() == Optional.class ? Optional.empty() : null;
        }
        if (given.has("kept")) {
            return KEPT.get(given.get("kept").asText());
        }
        if (type instanceof ParameterizedType found) {
            return several(given, (Class<?>) found.getRawType(), found.getActualTypeArguments());
        }
        if (!(type instanceof Class<?> wanted)) {
            return given.isTextual() ? given.asText() : given.asLong(); // a type variable
        }
        Object simple = simple(given, wanted);
        return simple == null ? object(given, wanted) : simple;
    }

    private static Object several(JsonNode given, Class<?> raw, Type[] types) throws ReflectiveOperationException {
        if (raw == Optional.class) {
            return Optional.of(made(given, types[0]));
        }
        require(given.isArray(), given, raw);
        if (raw == Map.class) { // an array of pairs, since keys may be objects
            Map<Object, Object> map = new LinkedHashMap<>();
            for (JsonNode pair : given) {
                map.put(made(pair.get(0), types[0]), made(pair.get(1), types[1]));
            }
            return map;
        }
        require(Collection.class.isAssignableFrom(raw) || raw == Collection.class, given, raw);
        Collection<Object> values = raw == Set.class ? new LinkedHashSet<>() : new ArrayList<>();
        for (JsonNode each : given) {
            values.add(made(each, types[0]));
        }
        return values;
    }

    private static Object simple(JsonNode given, Class<?> type) {
        if (type == Object.class && given.isTextual()) {
            return given.asText();
        } else if (type == String.class) {
            require(given.isTextual(), given, type);
            return given.asText();
        } else if (type == int.class || type == Integer.class) {
            require(given.isInt(), given, type);
            return given.asInt();
        } else if (type == long.class || type == Long.class) {
            require(given.isIntegralNumber(), given, type);
            return given.asLong();
        } else if (type == short.class || type == Short.class) {
            require(given.isInt(), given, type);
            return (short) given.asInt();
        } else if (type == double.class || type == Double.class) {
            require(given.isNumber(), given, type);
            return given.asDouble();
        } else if (type == boolean.class || type == Boolean.class) {
            require(given.isBoolean(), given, type);
            return given.asBoolean();
        } else if (type == byte[].class) {
            require(given.isTextual(), given, type);
            return given.asText().getBytes(StandardCharsets.UTF_8);
        } else if (type == Uuid.class) {
            require(given.isTextual(), given, type);
            return Uuid.fromString(given.asText());
        } else if (type.isEnum()) {
            require(given.isTextual(), given, type);
            return Arrays.stream(type.getEnumConstants())
                    .filter(each -> ((Enum<?>) each).name().equals(given.asText()))
                    .findFirst()
                    .orElseThrow(() -> new IllegalArgumentException(given + " is no " + type));
        }
        return null;
    }

    /** Builds an object from the arguments of its constructor, or as {"class", "make", "new", "set"} say. */
    private static Object object(JsonNode given, Class<?> type) throws ReflectiveOperationException {
        Class<?> wanted = given.has("class") ? named(given.get("class").asText()) : type;
        require(given.isArray() || given.isObject(), given, type);
        JsonNode arguments = given.isArray() ? given : given.path("new");
        if (given.has("make")) {
            for (Method method : wanted.getMethods()) {
                if (Modifier.isStatic(method.getModifiers())
                        && method.getName().equals(given.get("make").asText())
                        && method.getParameterCount() == arguments.size()) {
                    return method.invoke(null, made(arguments, method.getGenericParameterTypes()));
                }
            }
            throw new IllegalArgumentException(wanted + " has no static " + given);
        }
        String reasons = "";
        for (Constructor<?> constructor : wanted.getConstructors()) {
            if (constructor.getParameterCount() == arguments.size()) {
                try {
                    Object made = constructor.newInstance(made(arguments, constructor.getGenericParameterTypes()));
                    return given.has("set") ? with(made, given.get("set")) : made;
                } catch (IllegalArgumentException other) {
                    reasons += "; " + other.getMessage();
                }
            }
        }
        throw new IllegalArgumentException("no constructor of " + wanted + " takes " + given + reasons);
    }

    private static Object with(Object made, JsonNode setters) throws ReflectiveOperationException {
        for (var each : setters.properties()) {
            invoked(made, each.getKey(), JSON.createArrayNode().add(each.getValue()));
        }
        return made;
    }

    private static Class<?> named(String name) {
        for (String each : PACKAGES) {
            try {
                return Class.forName(each + name);
            } catch (ClassNotFoundException other) {
                // it is in another package
            }
        }
        throw new IllegalArgumentException("no class " + name);
    }

    private static void require(boolean isMet, JsonNode given, Class<?> type) {
        if (!isMet) {
            throw new IllegalArgumentException(given + " is no " + type.getSimpleName());
        }
    }

    private static String text(Throwable error) {
        return error.getClass().getSimpleName() + ": " + error.getMessage();
    }

    /** Returns a value as JSON: a result's or a value's getters, called one by one; times only as such. */
    private static Object show(Object value) throws ReflectiveOperationException {
        if (value instanceof Long number && number > TIME_MIN_MS && number < TIME_MAX_MS) {
            return "TIME";
        }
        if (value == null || value instanceof Number || value instanceof Boolean || value instanceof String) {
            return value;
        } else if (value instanceof Enum<?> constant) {
            return constant.name();
        } else if (value instanceof Throwable error) {
            return Map.of("error", text(error));
        } else if (value instanceof Node node) {
            return "node " + node.id() + (node.hasRack() ? " in " + node.rack() : "") + (node.isFenced() ? " fenced" : "");
        } else if (value instanceof TopicPartition) {
            return value.toString();
        } else if (value instanceof Uuid id) {
            return id.equals(Uuid.ZERO_UUID) || id.equals(Uuid.ONE_UUID) ? id.toString() : "ID";
        } else if (value instanceof byte[] bytes) {
            return bytes.length + " bytes";
        } else if (value instanceof Optional<?> optional) {
            return show(optional.orElse(null));
        } else if (value instanceof OptionalInt optional) {
            return optional.isPresent() ? optional.getAsInt() : null;
        } else if (value instanceof OptionalLong optional) {
            return optional.isPresent() ? optional.getAsLong() : null;
        } else if (value instanceof Future<?> future) {
            return outcome(future);
        } else if (value instanceof Map<?, ?> map) {
            Map<String, Object> shown = new TreeMap<>();
            for (var each : map.entrySet()) {
                Object key = show(each.getKey());
                shown.put(key instanceof String name ? name : written(key), show(each.getValue()));
            }
            return shown;
        } else if (value instanceof Collection<?> collection) {
            List<Object> shown = new ArrayList<>();
            for (Object each : collection) {
                shown.add(show(each));
            }
            if (!(value instanceof List) || shown.stream().anyMatch(each -> each instanceof Map)) {
                shown.sort(Comparator.comparing(AdminCalls::written));
            }
            return shown;
        }
        return value.getClass().getName().startsWith("org.apache.kafka") ? getters(value) : value.toString();
    }

    private static Object outcome(Future<?> future) throws ReflectiveOperationException {
        try {
            return show(future.get());
        } catch (ExecutionException failed) {
            return Map.of("error", text(failed.getCause()));
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private static Object getters(Object value) throws ReflectiveOperationException {
        Map<String, Object> shown = new TreeMap<>();
        for (Method method : value.getClass().getMethods()) {
            if (method.getParameterCount() > 0
                    || Modifier.isStatic(method.getModifiers())
                    || method.getReturnType() == void.class
                    || method.isAnnotationPresent(Deprecated.class)
                    || NOT_SHOWN.contains(method.getName())) {
                continue;
            }
            try {
                method.setAccessible(true);
                shown.put(method.getName(), show(method.invoke(value)));
            } catch (InvocationTargetException raised) {
                shown.put(method.getName(), Map.of("error", text(raised.getCause())));
            }
        }
        return shown;
    }

    private static String written(Object shown) {
        try {
            return JSON.writeValueAsString(shown);
        } catch (com.fasterxml.jackson.core.JsonProcessingException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
