import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;
import org.slf4j.LoggerFactory;

/**
 * Runs Apache Kafka's tools one after another, each as if in its own process.
 *
 * Each line of standard input has the tool's standard input, its class and its arguments, in base64, separated by tabs.
 * For each line, it prints the exit status and, in base64, what the tool printed until its exit. Logs are omitted.
 */
public final class ToolRunner {
    /** Collects what a tool prints on either stream until it exits. */
    private static final class Printed extends ByteArrayOutputStream {
        private boolean hasExited;

        @Override
        public synchronized void write(int value) {
            if (!hasExited) {
                super.write(value);
            }
        }

        @Override
        public synchronized void write(byte[] source, int offset, int length) {
            if (!hasExited) {
                super.write(source, offset, length);
            }
        }

        synchronized void begin() {
            hasExited = false;
            reset();
        }

        synchronized void end() {
            hasExited = true;
        }
    }

    /** Stands in for the end of the process. */
    private static final class Exited extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }

    private static final Printed PRINTED = new Printed();
    private static Integer status;

    private static synchronized void exit(int code, String message) {
        if (status == null) {
            if (message != null) {
                System.err.println(message);
            }
            status = code;
            PRINTED.end();
        }
        throw new Exited();
    }

    private static int run(String[] fields) throws ReflectiveOperationException {
        status = null;
        PRINTED.begin();
        System.setIn(new ByteArrayInputStream(fields[0].getBytes(StandardCharsets.UTF_8)));
        String[] arguments = Arrays.copyOfRange(fields, 2, fields.length);
        try {
            Class.forName(fields[1]).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException e) {
            if (status == null) {
                e.getCause().printStackTrace();
                status = 1;
            }
        }
        PRINTED.end();
        return status == null ? 0 : status;
    }

    public static void main(String[] ignored) throws IOException, ReflectiveOperationException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = System.out;
        PrintStream printed = new PrintStream(PRINTED, true, StandardCharsets.UTF_8);
        System.setOut(printed);
        System.setErr(printed);
        LoggerFactory.getLogger(ToolRunner.class); // reports, once, which of two bindings it uses
        Exit.setExitProcedure(ToolRunner::exit);
        Exit.setHaltProcedure(ToolRunner::exit);
        Exit.setShutdownHookAdder((name, hook) -> {}); // the process does not exit
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] fields = Arrays.stream(line.split("\t", -1))
                    .map(each -> new String(Base64.getDecoder().decode(each), StandardCharsets.UTF_8))
                    .toArray(String[]::new);
            int code = run(fields);
            output.println(code + "\t" + Base64.getEncoder().encodeToString(PRINTED.toByteArray()));
            output.flush();
        }
    }
}
