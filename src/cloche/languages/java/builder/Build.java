import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.util.JavacTask;
import com.sun.tools.javac.api.BasicJavacTask;
import com.sun.tools.javac.util.Context;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.Writer;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

/**
 * Builds a Java program inside a sandbox with the JDK's own compiler, in this process: completes code that lacks a
 * class, and finds the class to start.
 *
 * <p>This file controls the build; Snippet completes code, Source knows where each line was, Entrance finds the main
 * class, Pom reads a Maven project. After a change to any of them, raise the preparation's version in ../definition.py.
 */
final class Build {
    private static final int MAX_FILES = 5000;

    private final Path root;
    private final Path entry;
    private final Path scratch;
    private final boolean alone;
    private final PrintWriter out = new PrintWriter(System.err, false, StandardCharsets.UTF_8);
    private final JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();

    private Build(Path root, Path entry, Path scratch, boolean alone) {
        this.root = root;
        this.entry = entry;
        this.scratch = scratch;
        this.alone = alone;
    }

    /** Arguments: the project's folder, the entry, where the result goes, and "alone" if the entry is the whole program. */
    public static void main(String[] words) throws IOException {
        Build build = new Build(Path.of(words[0]), Path.of(words[1]), Path.of(words[2]), words.length > 3);
        boolean good = false;
        try {
            good = build.run();
        } catch (StackOverflowError | RuntimeException problem) {
            build.fail(problem);
        }
        build.out.flush();
        System.exit(good ? 0 : 1);
    }

    /** Unwraps the reason why the compiler gave up. */
    private void fail(Throwable problem) {
        Throwable reason = problem;
        while (reason.getCause() != null) {
            reason = reason.getCause();
        }
        if (reason instanceof OutOfMemoryError memory) {
            throw memory;
        }
        String message = reason instanceof StackOverflowError ? "this is nested too deeply" : reason.toString();
        out.println(entry + ":1: error: the compiler gave up: " + message);
    }

    private boolean run() throws IOException {
        Pom pom = Pom.read(root.resolve("pom.xml"), root, alone);
        if (!pom.problems.isEmpty()) {
            pom.problems.forEach(problem -> out.println(problem));
            return false;
        }
        try (StandardJavaFileManager files = compiler.getStandardFileManager(null, Locale.ENGLISH, StandardCharsets.UTF_8)) {
            Source source = Snippet.complete(entry, read(entry), compiler, files);
            Path sources = pom.sources != null ? pom.sources : sourceRoot(source);
            List<Path> jars = alone ? List.of() : jars();
            Attempt attempt = null;
            if (pom.sources == null) {  // files that the entry needs are found by name
                attempt = new Attempt(files, List.of(source), sources, jars, pom);
            }
            if (!alone && (attempt == null || attempt.misses())) {
                attempt = new Attempt(files, everything(source, sources), sources, jars, pom);
            }
            attempt.report();
            return attempt.good && enter(attempt, jars, pom);
        }
    }

    /** Writes a file of arguments for `java` that names the class to start. */
    private boolean enter(Attempt attempt, List<Path> jars, Pom pom) throws IOException {
        String main = attempt.mainClass != null ? attempt.mainClass : pom.mainClass;
        if (main == null) {
            out.println(entry + ":1: error: there is no main method to run");
            return false;
        }
        List<String> places = new ArrayList<>(List.of(classes().toString()));
        Path resources = root.resolve("src/main/resources");
        places.add((Files.isDirectory(resources) ? resources : root).toString());
        jars.forEach(jar -> places.add(jar.toString()));
        String quoted = String.join(":", places).replace("\\", "\\\\").replace("\"", "\\\"");
        Files.writeString(scratch.resolve("run"), "-cp \"" + quoted + "\"\n\"" + main + "\"\n");
        return true;
    }

    private Path classes() {
        return scratch.resolve("classes");
    }

    /** Returns the folder that contains the entry's package. */
    private Path sourceRoot(Source source) {
        Path folder = entry.getParent();
        String[] parts = source.packageName.isEmpty() ? new String[0] : source.packageName.split("\\.");
        for (int index = parts.length - 1; index >= 0; index--) {
            if (folder.getFileName() == null || !folder.getFileName().toString().equals(parts[index])) {
                return root;  // its folder does not match its package: let the compiler find what it can
            }
            folder = folder.getParent();
        }
        return folder;
    }

    private List<Source> everything(Source source, Path sources) throws IOException {
        List<Source> found = new ArrayList<>(List.of(source));
        for (Path path : below(sources, ".java")) {
            String name = path.getFileName().toString();
            if (!path.equals(entry) && !name.equals("module-info.java") && !path.toString().contains("/src/test/")) {
                found.add(new Source(path, read(path)));
            }
        }
        return found;
    }

    private List<Path> jars() throws IOException {
        List<Path> found = new ArrayList<>(below(root, ".jar"));
        List<Path> provided = Pom.provided();
        if (provided != null) {
            found.addAll(provided);
        }
        return found;
    }

    private static List<Path> below(Path folder, String suffix) throws IOException {
        try (Stream<Path> paths = Files.find(folder, 12, (path, about) -> about.isRegularFile())) {
            return paths.filter(path -> path.toString().endsWith(suffix)).sorted().limit(MAX_FILES).toList();
        }
    }

    /** Returns a file's text without the byte order mark of Windows' editors, which the compiler rejects. */
    private static String read(Path path) throws IOException {
        String text = new String(Files.readAllBytes(path), StandardCharsets.UTF_8);
        return text.startsWith("\ufeff") ? text.substring(1) : text;
    }

    /** One attempt to compile. */
    private final class Attempt {
        final DiagnosticCollector<JavaFileObject> said = new DiagnosticCollector<>();
        final String mainClass;
        final Map<URI, Source> known = new HashMap<>(); // the compiler wraps files in objects of its own
        final boolean good;
        private final Context context;

        Attempt(StandardJavaFileManager files, List<Source> sources, Path sourcePath, List<Path> jars, Pom pom)
                throws IOException {
            Files.createDirectories(classes());
            List<String> options = new ArrayList<>(List.of("-d", classes().toString(), "-g", "-proc:none",
                    // Plain string concatenation: linking it at run time would take a program's first 20 ms.
                    "-XDstringConcat=inline", "-implicit:class"));
            if (!alone) {
                options.addAll(List.of("-sourcepath", sourcePath.toString()));
            }
            String classPath = String.join(":", jars.stream().map(Path::toString).toList());
            options.addAll(List.of("-classpath", classPath));
            options.addAll(pom.options);
            JavacTask task = (JavacTask) compiler.getTask(Writer.nullWriter(), files, said, options, null, sources);
            context = ((BasicJavacTask) task).getContext();
            sources.forEach(source -> known.put(source.toUri(), source));
            Iterable<? extends CompilationUnitTree> units = task.parse();
            mainClass = Entrance.find(units, sources.get(0)); // now, because the compiler modifies its trees later
            for (CompilationUnitTree unit : units) {
                known.get(unit.getSourceFile().toUri()).keepLines(unit);
            }
            if (!failed()) {
                task.analyze();
            }
            if (!failed()) {
                task.generate();
            }
            good = !failed();
        }

        private boolean failed() {
            return said.getDiagnostics().stream().anyMatch(each -> each.getKind() == Diagnostic.Kind.ERROR);
        }

        /** Are unknown names the only errors? They may be defined in files with other names. */
        boolean misses() {
            return said.getDiagnostics().stream().anyMatch(
                    each -> each.getKind() == Diagnostic.Kind.ERROR
                            && (each.getCode().contains("cant.resolve") || each.getCode().contains("doesnt.exist")));
        }

        void report() {
            int errors = 0;
            for (Diagnostic<? extends JavaFileObject> each : said.getDiagnostics()) {
                errors += each.getKind() == Diagnostic.Kind.ERROR ? 1 : 0;
                Message.write(out, each, each.getSource() == null ? null : known.get(each.getSource().toUri()), context);
            }
            if (errors > 0) {
                out.println(errors == 1 ? "1 error" : errors + " errors");
            }
        }
    }
}
