import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import jdk.jshell.DeclarationSnippet;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.UnresolvedReferenceException;
import jdk.jshell.execution.LocalExecutionControlProvider;
import sun.misc.Signal;

/**
 * Runs the cells of a Java kernel with JShell in this JVM: kernels/folder_kernel.py sends their numbers, and finds the
 * results in the folder of each.
 */
final class Kernel {
    private static final String[] IMPORTS = {"java.io.*", "java.math.*", "java.net.*", "java.nio.charset.*",
        "java.nio.file.*", "java.time.*", "java.util.*", "java.util.concurrent.*", "java.util.concurrent.atomic.*",
        "java.util.function.*", "java.util.regex.*", "java.util.stream.*"};
    private static final Pattern PROGRAM = Pattern.compile(
            "(?s)\\b(?:class|record|enum|interface)\\s+(\\w+).*?\\bpublic\\s+static\\s+void\\s+main\\s*\\(\\s*String\\b");

    private final JShell shell = JShell.builder().in(System.in).out(System.out).err(System.err)
            .executionEngine(new LocalExecutionControlProvider(), Map.of()).build();
    private Path folder; // of the current cell
    private boolean interrupted;

    private Kernel() {
        for (String name : IMPORTS) {
            shell.eval("import " + name + ";");
        }
        Signal.handle(new Signal("INT"), signal -> {
            interrupted = true;
            shell.stop();
        });
    }

    /** Runs cells until there are no more; the argument is the kernel's folder. */
    public static void main(String[] words) throws IOException {
        Path root = Path.of(words[0]);
        Kernel kernel = new Kernel();
        System.getenv().forEach((name, value) -> {
            if (System.getProperty(name) == null && !name.isEmpty()) {
                System.setProperty(name, value);
            }
        });
        try (BufferedReader commands = Files.newBufferedReader(root.resolve("commands"))) {
            for (String number = commands.readLine(); number != null; number = commands.readLine()) {
                kernel.folder = root.resolve(number);
                Map<String, String> before = set(variables(kernel.folder.resolve("env")));
                kernel.run(Files.readString(kernel.folder.resolve("code.java")));
                set(before);
                System.out.flush();
                System.err.flush();
                Files.writeString(root.resolve("reports"), number + "\n", StandardOpenOption.WRITE);
            }
        }
        System.exit(0);
    }

    /** Reads the variables of a cell: names and, in hexadecimal, values in turn. */
    private static Map<String, String> variables(Path file) throws IOException {
        Map<String, String> found = new HashMap<>();
        List<String> lines = Files.exists(file) ? Files.readAllLines(file) : List.of();
        for (int place = 0; place + 1 < lines.size(); place += 2) {
            byte[] value = HexFormat.of().parseHex(lines.get(place + 1));
            found.put(lines.get(place), new String(value, StandardCharsets.UTF_8));
        }
        return found;
    }

    /**
     * Sets variables of the environment, or removes those without a value, and returns what they were.  They are also
     * properties of the system, as in other Java kernels.  Java has no way to change its environment, so this changes
     * the map behind System.getenv() and ProcessBuilder.environment().
     */
    @SuppressWarnings("unchecked")
    private static Map<String, String> set(Map<String, String> values) {
        Map<String, String> before = new HashMap<>();
        if (values.isEmpty()) {
            return before;
        }
        Map<String, String> environment;
        try {
            Field inner = System.getenv().getClass().getDeclaredField("m");
            inner.setAccessible(true);
            environment = (Map<String, String>) inner.get(System.getenv());
        } catch (ReflectiveOperationException | RuntimeException otherJava) {
            environment = new HashMap<>(System.getenv());
        }
        for (Map.Entry<String, String> each : values.entrySet()) {
            String name = each.getKey();
            String old = environment.get(name);
            before.put(name, old);
            boolean isOurs = System.getProperty(name) == null || System.getProperty(name).equals(old);
            if (each.getValue() == null) {
                environment.remove(name);
            } else {
                environment.put(name, each.getValue());
            }
            if (isOurs && each.getValue() == null) {
                System.clearProperty(name);
            } else if (isOurs && !name.isEmpty()) {
                System.setProperty(name, each.getValue());
            }
        }
        return before;
    }

    private void run(String code) throws IOException {
        interrupted = false;
        SourceCodeAnalysis analysis = shell.sourceCodeAnalysis();
        String rest = code;
        Snippet last = null;
        String value = null;
        boolean declaresOnly = true;
        List<DeclarationSnippet> waiting = new ArrayList<>(); // for declarations further down
        while (!rest.isBlank()) {
            SourceCodeAnalysis.CompletionInfo info = analysis.analyzeCompletion(rest);
            String source = info.source() == null ? rest : info.source();
            for (SnippetEvent event : shell.eval(source)) {
                if (event.causeSnippet() != null) {
                    continue; // an earlier one that was waiting for this
                }
                if (failed(event, code, code.length() - rest.length())) {
                    return;
                }
                last = event.snippet();
                value = event.value();
                if (last instanceof DeclarationSnippet declaration) {
                    waiting.add(declaration);
                }
                declaresOnly &= last.kind() == Snippet.Kind.TYPE_DECL || last.kind() == Snippet.Kind.IMPORT;
            }
            rest = info.source() == null ? "" : info.remaining();
        }
        for (DeclarationSnippet declaration : waiting) {
            if (shell.status(declaration) == Snippet.Status.RECOVERABLE_NOT_DEFINED) {
                unresolved(declaration);
                return;
            }
        }
        Matcher program = PROGRAM.matcher(code);
        if (declaresOnly && program.find()) { // a whole program: its sender wants it run
            for (SnippetEvent event : shell.eval(program.group(1) + ".main(new String[0]);")) {
                failed(event, code, 0);
            }
        } else if (last != null && value != null && isExpression(last)) {
            put("value", value);
        }
    }

    private static boolean isExpression(Snippet snippet) {
        return snippet.kind() == Snippet.Kind.EXPRESSION
                || snippet.subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
    }

    /** Reports the error in a piece of the cell, if there is one. */
    private boolean failed(SnippetEvent event, String code, int offset) throws IOException {
        if (interrupted) {
            fail("KeyboardInterrupt", "The cell was interrupted.", "");
            return true;
        }
        if (event.status() == Snippet.Status.REJECTED) {
            reject(event.snippet(), code, offset);
            return true;
        }
        if (event.exception() != null) {
            report(event.exception());
            return true;
        }
        return false;
    }

    private void unresolved(DeclarationSnippet snippet) throws IOException {
        List<String> missing = shell.unresolvedDependencies(snippet).toList();
        fail("UnresolvedReference", "not defined yet: " + String.join(", ", missing), "");
    }

    private void reject(Snippet snippet, String code, int offset) throws IOException {
        List<String> lines = new ArrayList<>();
        String first = null;
        for (Diag diagnostic : shell.diagnostics(snippet).toList()) {
            if (!diagnostic.isError()) {
                continue;
            }
            String message = plain(diagnostic.getMessage(null));
            first = first == null ? message.strip().replaceAll("\\s*\\n\\s*", ", ") : first;
            int start = Math.max(0, Math.min(code.length(), offset + (int) Math.max(0, diagnostic.getPosition())));
            long line = code.substring(0, start).chars().filter(each -> each == '\n').count() + 1;
            int begin = code.lastIndexOf('\n', start - 1) + 1;
            int end = code.indexOf('\n', start);
            lines.add("line " + line + ": error: " + message);
            lines.add(code.substring(begin, end < 0 ? code.length() : end));
            lines.add(" ".repeat(Math.max(0, start - begin)) + "^");
        }
        fail("SyntaxError", first == null ? "this cannot be compiled" : first, String.join("\n", lines));
    }

    private void report(JShellException problem) throws IOException {
        if (problem instanceof EvalException raised) {
            StringWriter trace = new StringWriter();
            raised.printStackTrace(new PrintWriter(trace));
            String name = plain(raised.getExceptionClassName());
            String text = trace.toString().replace(EvalException.class.getName(), name);
            fail(name, raised.getMessage() == null ? "" : plain(raised.getMessage()), plain(text));
        } else if (problem instanceof UnresolvedReferenceException missing) {
            unresolved(missing.getSnippet());
        } else {
            fail(problem.getClass().getSimpleName(), String.valueOf(problem.getMessage()), "");
        }
    }

    /** Removes the names that JShell gives to the code around a snippet. */
    private static String plain(String text) {
        return text.replaceAll("\\bREPL\\.\\$JShell\\$\\w+[.$]", "").replaceAll("\n\\s*location: class\\s*$", "");
    }

    private void fail(String name, String message, String trace) throws IOException {
        put("error", name + "\n" + message);
        put("trace", trace.isEmpty() ? name + ": " + message : trace);
    }

    private void put(String name, String text) throws IOException {
        Files.writeString(folder.resolve(name), text);
    }
}
