import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The parts of a Maven project with one module that matter here. */
final class Pom {
    final List<String> problems = new ArrayList<>();
    final List<String> options = new ArrayList<>();
    Path sources; // null without a pom.xml
    String mainClass;
    private final Map<String, String> properties = new HashMap<>();

    static Pom read(Path path, Path root, boolean alone) throws IOException {
        Pom pom = new Pom();
        if (alone || !Files.isRegularFile(path)) {
            return pom;
        }
        Matcher comments = Pattern.compile("(?s)<!--.*?-->").matcher(Files.readString(path));
        pom.take(comments.replaceAll(comment -> "\n".repeat((int) comment.group().chars().filter(each -> each == '\n').count())), path, root);
        return pom;
    }

    private void take(String text, Path path, Path root) throws IOException {
        Matcher property = Pattern.compile("<([\\w.-]+)>([^<>]*)</\\1>").matcher(inside(text, "properties"));
        while (property.find()) {
            properties.put(property.group(1), property.group(2).strip());
        }
        if (text.contains("<modules>")) {
            problems.add(path + ":1: error: a project of several modules cannot be built here: give one of them");
        }
        String build = inside(text, "build");
        Path stated = root.resolve(or(inside(build, "sourceDirectory"), "src/main/java"));
        sources = Files.isDirectory(stated) ? stated : root;
        mainClass = blank(inside(build, "mainClass"), "exec.mainClass", "main.class", "start-class");
        String release = blank(or(inside(build, "release"), ""), "maven.compiler.release", "maven.compiler.source",
                "maven.compiler.target", "java.version");
        if (release != null) {
            options.addAll(List.of("--release", release.replaceFirst("^1\\.", "")));
        }
        refuse(text, path, root);
    }

    /** Returns the jars of the project's dependencies that Cloche provides; null if it provides none. */
    static List<Path> provided() throws IOException {
        String listing = System.getenv("PROVIDED_CLASSPATH");
        if (listing == null) {
            return null;
        }
        Path folder = Path.of(listing).getParent();
        return Files.readAllLines(Path.of(listing)).stream().filter(line -> line.endsWith(".jar")).map(folder::resolve).toList();
    }

    /** There is no network: dependencies without a jar in the project are missing, unless Cloche provides them. */
    private void refuse(String text, Path path, Path root) throws IOException {
        if (provided() != null) {
            return;
        }
        String without = text.replaceAll("(?s)<(dependencyManagement|build|profiles)>.*?</\\1>", "");
        Matcher dependency = Pattern.compile("(?s)<dependency>(.*?)</dependency>").matcher(without);
        while (dependency.find()) {
            String scope = inside(dependency.group(1), "scope");
            String artifact = inside(dependency.group(1), "artifactId");
            if (scope.equals("test") || scope.equals("provided") || hasJar(root, artifact)) {
                continue;
            }
            String group = inside(dependency.group(1), "groupId");
            long line = text.substring(0, text.indexOf(">" + artifact) + 1).lines().count();
            problems.add(path + ":" + line + ": error: the dependency " + group + ":" + artifact
                    + " is not here, and nothing is downloaded: add its jar to the project's files, in lib/");
        }
    }

    private static boolean hasJar(Path root, String artifact) throws IOException {
        try (var paths = Files.find(root, 4, (path, about) -> about.isRegularFile())) {
            return paths.anyMatch(path -> path.getFileName().toString().startsWith(artifact)
                    && path.toString().endsWith(".jar"));
        }
    }

    private String blank(String found, String... names) {
        if (!found.isBlank()) {
            return value(found);
        }
        for (String name : names) {
            if (properties.containsKey(name)) {
                return value(properties.get(name));
            }
        }
        return null;
    }

    private String value(String text) {
        String stripped = text.strip();
        boolean isName = stripped.startsWith("${") && stripped.endsWith("}");
        return isName ? properties.getOrDefault(stripped.substring(2, stripped.length() - 1), "") : stripped;
    }

    private static String or(String found, String otherwise) {
        return found.isBlank() ? otherwise : found.strip();
    }

    private static String inside(String text, String tag) {
        Matcher found = Pattern.compile("(?s)<" + tag + ">(.*?)</" + tag + ">").matcher(text);
        return found.find() ? found.group(1).strip() : "";
    }
}
