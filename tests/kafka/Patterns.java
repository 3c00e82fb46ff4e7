import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * Shows how RE2/J, as used by Apache Kafka, treats expressions.
 *
 * Each line of standard input has an expression and names, in base64, separated by tabs. For each line, it prints the
 * error in the expression, or, for each name, 1 if the whole name matches and 0 if not.
 */
public final class Patterns {
    private static String text(String encoded) {
        return new String(Base64.getDecoder().decode(encoded), StandardCharsets.UTF_8);
    }

    private static String answer(String[] fields) {
        Pattern pattern;
        try {
            pattern = Pattern.compile(text(fields[0]));
        } catch (PatternSyntaxException e) {
            return e.getDescription();
        } catch (Throwable e) {
            return e.getClass().getName();
        }
        StringBuilder found = new StringBuilder();
        for (int place = 1; place < fields.length; place++) {
            found.append(pattern.matcher(text(fields[place])).matches() ? '1' : '0');
        }
        return found.toString();
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.println(answer(line.split("\t", -1)));
        }
    }
}
