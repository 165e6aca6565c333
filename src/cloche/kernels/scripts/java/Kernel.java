import java.io.BufferedReader;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import jdk.jshell.DeclarationSnippet;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.UnresolvedReferenceException;
import jdk.jshell.VarSnippet;
import jdk.jshell.execution.LocalExecutionControl;
import jdk.jshell.spi.ExecutionControl;
import jdk.jshell.spi.ExecutionControlProvider;
import jdk.jshell.spi.ExecutionEnv;
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

    private final CellInput input = new CellInput();
    private final Engine engine = new Engine();
    private final JShell shell = JShell.builder().in(System.in).out(System.out).err(System.err)
            .executionEngine(engine, Map.of()).build();
    private Path folder; // of the current cell
    private boolean interrupted;

    private Kernel() {
        System.setIn(input);
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
                if (number.startsWith("list-")) {
                    kernel.list(root.resolve(number));
                    continue;
                }
                kernel.folder = root.resolve(number);
                kernel.input.begin(kernel.folder.resolve("stdin"));
                Map<String, String> before = set(variables(kernel.folder.resolve("env")));
                kernel.run(Files.readString(kernel.folder.resolve("code.java")));
                set(before);
                kernel.input.close();
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

    /**
     * Writes the variables for cloche.kernels.variable_report.  No method of the user's classes runs for that, so no
     * `toString` either.
     */
    private void list(Path path) throws IOException {
        List<String> request = Files.readAllLines(Path.of(path + ".request"));
        String search = request.get(0).toLowerCase(Locale.ROOT);
        String only = request.get(1);
        List<VarSnippet> found = shell.variables()
                .filter(one -> one.subKind() != Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND && one.name().length() <= 100)
                .filter(one -> only.isEmpty() ? one.name().toLowerCase(Locale.ROOT).contains(search) : one.name().equals(only))
                .sorted(Comparator.comparing(VarSnippet::name)).toList();
        StringBuilder text = new StringBuilder().append(found.size()).append('\0');
        Preview preview = new Preview(only.isEmpty() ? 120 : 8000);
        engine.preview = preview;
        for (VarSnippet one : found.subList(0, Math.min(found.size(), 1000))) {
            String shown = "";
            preview.shape = "";
            try {
                shown = shell.varValue(one);
            } catch (RuntimeException | Error notThere) {
                // not initialised, or a class of it is missing
            }
            for (String field : List.of(one.name(), plain(String.valueOf(one.typeName())), preview.shape, "0", plain(shown))) {
                text.append(field.replace("\0", "\\0")).append('\0');
            }
        }
        try {
            Files.write(path, text.toString().getBytes(StandardCharsets.UTF_8));
        } catch (IOException late) {
            // the kernel waits no longer
        }
    }

    /** Runs snippets in this JVM; JShell asks it for the value of a variable only when the variables are listed. */
    private static final class Engine extends LocalExecutionControl implements ExecutionControlProvider {
        private Preview preview;

        @Override
        public String name() {
            return "cloche";
        }

        @Override
        public ExecutionControl generate(ExecutionEnv environment, Map<String, String> parameters) {
            return this;
        }

        @Override
        public String varValue(String className, String name) throws InternalException {
            try {
                Class<?> holder = findClass(className);
                Field field = holder.getDeclaredField(name);
                field.setAccessible(true);
                return preview.of(field.get(null), holder.getClassLoader());
            } catch (ReflectiveOperationException | RuntimeException | LinkageError problem) {
                throw new InternalException(problem.toString());
            }
        }
    }

    /** Writes the beginning of values: what the JDK's own classes contain, and the fields of others. */
    private static final class Preview {
        // Of exactly these classes, because a subclass or a view may call what a cell has defined.
        private static final Set<String> COLLECTIONS = Set.of("ArrayList", "LinkedList", "ArrayDeque", "Vector", "Stack",
                "HashSet", "LinkedHashSet", "PriorityQueue", "Arrays$ArrayList", "ImmutableCollections$ListN",
                "ImmutableCollections$List12", "ImmutableCollections$SetN", "ImmutableCollections$Set12",
                "concurrent.CopyOnWriteArrayList", "concurrent.ConcurrentLinkedQueue");
        private static final Set<String> MAPS = Set.of("HashMap", "LinkedHashMap", "TreeMap", "Hashtable",
                "ImmutableCollections$MapN", "ImmutableCollections$Map1", "concurrent.ConcurrentHashMap");
        private static final Set<String> PLAIN = Set.of("java.lang.Boolean", "java.lang.Byte", "java.lang.Short",
                "java.lang.Integer", "java.lang.Long", "java.lang.Float", "java.lang.Double", "java.util.UUID",
                "java.util.concurrent.atomic.AtomicInteger", "java.util.concurrent.atomic.AtomicLong",
                "java.util.concurrent.atomic.AtomicBoolean", "java.time.LocalDate", "java.time.LocalTime",
                "java.time.LocalDateTime", "java.time.Instant", "java.time.Duration", "java.time.Period",
                "sun.nio.fs.UnixPath");
        private static final int BITS = 4000; // of a number that is written in digits

        private final int room;
        private final long end = System.nanoTime() + 1_000_000_000L;
        private ClassLoader cells;
        private String shape = "";

        Preview(int room) {
            this.room = room;
        }

        String of(Object value, ClassLoader loader) {
            cells = loader;
            if (System.nanoTime() > end) {
                return "";
            } else if (value instanceof String text) {
                shape = String.valueOf(text.length());
                return room > 120 ? cut(text, room) : quoted(text, room);
            }
            return text(value, 3, room);
        }

        private String text(Object value, int depth, int left) {
            if (value == null) {
                return "null";
            }
            Class<?> kind = value.getClass();
            String name = kind.getName();
            if (PLAIN.contains(name) && kind.getClassLoader() == null) {
                return value.toString();
            } else if (value instanceof String string) {
                return quoted(string, left);
            } else if (value instanceof Character sign) {
                return "'" + sign + "'";
            } else if (value instanceof StringBuilder builder) {
                return quoted(builder.substring(0, Math.min(builder.length(), left + 1)), left);
            } else if (kind == BigInteger.class || kind == BigDecimal.class) {
                int bits = (value instanceof BigDecimal one ? one.unscaledValue() : (BigInteger) value).bitLength();
                return bits > BITS ? "a number of " + bits + " bits" : value.toString();
            } else if (value instanceof Class<?> type) {
                return "class " + type.getName();
            } else if (kind == File.class) {
                return quoted(((File) value).getPath(), left);
            } else if (value instanceof Optional<?> optional) {
                return optional.isPresent() ? "Optional[" + text(optional.get(), depth - 1, left) + "]" : "Optional.empty";
            } else if (value instanceof Enum<?> constant) {
                return constant.name();
            } else if (kind.isArray()) {
                int length = Array.getLength(value);
                return items(length, depth, left, IntStream.range(0, length).mapToObj(place -> Array.get(value, place)).iterator());
            } else if (name.startsWith("java.util.") && COLLECTIONS.contains(name.substring(10))) {
                Collection<?> collection = (Collection<?>) value;
                return items(collection.size(), depth, left, collection.iterator());
            } else if (name.startsWith("java.util.") && MAPS.contains(name.substring(10))) {
                Map<?, ?> map = (Map<?, ?>) value;
                return items(map.size(), depth, left, map.entrySet().iterator());
            }
            return name.contains("$$Lambda") ? "a lambda" : object(value, kind, depth, left);
        }

        private String items(int count, int depth, int left, Iterator<?> items) {
            if (depth == 3) {
                shape = String.valueOf(count);
            }
            if (depth <= 0) {
                return count == 0 ? "[]" : "[…]";
            }
            StringBuilder text = new StringBuilder("[");
            while (items.hasNext()) {
                if (text.length() > left || System.nanoTime() > end) {
                    text.append(", …");
                    break;
                }
                Object item = items.next();
                text.append(text.length() > 1 ? ", " : "");
                if (item instanceof Map.Entry<?, ?> entry && item.getClass().getClassLoader() == null && isOfMap(item)) {
                    text.append(text(entry.getKey(), depth - 1, left)).append("=").append(text(entry.getValue(), depth - 1, left));
                } else {
                    text.append(text(item, depth - 1, left));
                }
            }
            return text.append("]").toString();
        }

        private static boolean isOfMap(Object entry) {
            return entry.getClass().getName().matches("java\\.util\\.(HashMap|LinkedHashMap|TreeMap|Hashtable|KeyValueHolder|concurrent\\.ConcurrentHashMap)(\\$\\w+)?");
        }

        /** Reads the fields of an object whose class is a cell's; other classes are only named. */
        private String object(Object value, Class<?> kind, int depth, int left) {
            String name = plain(kind.getName());
            if (kind.getClassLoader() != cells || depth <= 0) {
                return "<" + name + ">";
            }
            StringBuilder text = new StringBuilder(name).append("[");
            for (Field field : kind.getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers()) || field.isSynthetic() || text.length() > left) {
                    continue;
                }
                text.append(text.length() > name.length() + 1 ? ", " : "").append(field.getName()).append("=");
                try {
                    field.setAccessible(true);
                    text.append(text(field.get(value), depth - 1, left));
                } catch (ReflectiveOperationException | RuntimeException refused) {
                    text.append("?");
                }
            }
            return text.append("]").toString();
        }

        private static String quoted(String text, int room) {
            String beginning = cut(text, room).replace("\\", "\\\\").replace("\"", "\\\"");
            return '"' + beginning.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r") + '"';
        }

        private static String cut(String text, int room) {
            return text.length() > room ? text.substring(0, room) + "…" : text;
        }
    }

    /**
     * System.in: the input of the current cell, if it has one.  It stays the same object, so that a Scanner which an
     * earlier cell has made reads on.
     */
    private static final class CellInput extends InputStream {
        private InputStream source = InputStream.nullInputStream();

        void begin(Path given) throws IOException {
            source = Files.exists(given) ? new FileInputStream(Files.readString(given).strip()) : InputStream.nullInputStream();
        }

        @Override
        public int read() throws IOException {
            return source.read();
        }

        @Override
        public int read(byte[] bytes, int start, int length) throws IOException {
            return source.read(bytes, start, length);
        }

        @Override
        public int available() throws IOException {
            return source.available();
        }

        @Override
        public void close() throws IOException {
            source.close();
            source = InputStream.nullInputStream();
        }
    }
}
