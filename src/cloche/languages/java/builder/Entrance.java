import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.MethodTree;
import com.sun.source.tree.Tree;
import java.util.ArrayList;
import java.util.List;
import javax.lang.model.element.Modifier;

/** Finds the class to start. */
final class Entrance {
    private static final int FIRST_WITHOUT_STATIC = 25; // the first Java that accepts `void main()`

    private Entrance() {}

    /** Returns the entry's class with a main method: preferably named like its file, else public; null if none. */
    static String find(Iterable<? extends CompilationUnitTree> units, Source entry) {
        if (entry.mainClass != null) {
            return entry.mainClass;
        }
        List<String> found = new ArrayList<>();
        List<String> open = new ArrayList<>();
        for (CompilationUnitTree unit : units) {
            if (unit.getSourceFile().toUri().equals(entry.toUri())) {
                String prefix = entry.packageName.isEmpty() ? "" : entry.packageName + ".";
                for (boolean any : new boolean[] {false, true}) {
                    unit.getTypeDecls().forEach(tree -> collect(tree, prefix, any, found));
                }
                for (Tree tree : unit.getTypeDecls()) {
                    if (tree instanceof ClassTree type && type.getModifiers().getFlags().contains(Modifier.PUBLIC)) {
                        open.add(prefix + type.getSimpleName());
                    }
                }
            }
        }
        String called = entry.path.getFileName().toString().replaceAll("\\.java$", "");
        return found.stream().filter(name -> name.equals(called) || name.endsWith("." + called)).findFirst()
                .or(() -> found.stream().filter(open::contains).findFirst())
                .orElse(found.isEmpty() ? null : found.get(0));
    }

    private static void collect(Tree tree, String prefix, boolean any, List<String> found) {
        if (!(tree instanceof ClassTree type)) {
            return;
        }
        String name = prefix + type.getSimpleName();
        for (Tree member : type.getMembers()) {
            if (member instanceof MethodTree method && isMain(method, type, any)) {
                found.add(name);
            }
        }
        type.getMembers().forEach(member -> collect(member, name + "$", any, found));
    }

    private static boolean isMain(MethodTree method, ClassTree type, boolean any) {
        if (!method.getName().contentEquals("main") || method.getReturnType() == null
                || !method.getReturnType().toString().equals("void")) {
            return false;
        }
        boolean takesWords = method.getParameters().size() == 1
                && method.getParameters().get(0).getType().toString().matches("(java\\.lang\\.)?String(\\[\\]|\\.\\.\\.)");
        var flags = method.getModifiers().getFlags();
        boolean isOpen = flags.contains(Modifier.PUBLIC) || type.getKind() == Tree.Kind.INTERFACE;
        if (takesWords && isOpen && flags.contains(Modifier.STATIC)) {
            return true;
        }
        return any && Runtime.version().feature() >= FIRST_WITHOUT_STATIC && !flags.contains(Modifier.PRIVATE)
                && (takesWords || method.getParameters().isEmpty());
    }
}
