import com.sun.source.tree.CompilationUnitTree;
import com.sun.tools.javac.tree.JCTree.JCCompilationUnit;
import com.sun.tools.javac.util.Position;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import javax.tools.SimpleJavaFileObject;

/** A file for the compiler: its text as it is, or rearranged with a record of where everything was. */
final class Source extends SimpleJavaFileObject {
    /** A part of the text that was copied from the author's text. */
    private record Part(int start, int end, int original) {}

    final Path path;
    private final String author; // the text as its author wrote it
    private final StringBuilder text = new StringBuilder();
    private final List<Part> parts = new ArrayList<>();
    String packageName = "";
    String mainClass; // set for code that was completed

    Source(Path path, String author) {
        this(path, author, true);
    }

    /** A file whose text is built by `add` and `copy`. */
    Source(Path path, String author, boolean whole) {
        super(path.toUri(), Kind.SOURCE);
        this.path = path;
        this.author = author;
        if (whole) {
            copy(0, author.length());
        }
    }

    void add(String ours) {
        text.append(ours);
    }

    void copy(int start, int end) {
        parts.add(new Part(text.length(), text.length() + end - start, start));
        text.append(author, start, end);
    }

    @Override
    public CharSequence getCharContent(boolean ignoreEncodingErrors) {
        return text;
    }

    /** Accepts a public class with any name: people paste classes, not files. */
    @Override
    public boolean isNameCompatible(String simpleName, Kind kind) {
        return kind == Kind.SOURCE && !simpleName.endsWith("-info");
    }

    @Override
    public String getName() {
        return path.toString();
    }

    /** Returns the author's position of a character; for added text, the nearest position before it. */
    int original(int position) {
        int found = 0;
        for (Part part : parts) {
            if (position >= part.start && position < part.end) {
                return part.original + position - part.start;
            }
            if (part.end <= position) {
                found = part.original + part.end - part.start;
            }
        }
        return Math.min(found, author.length());
    }

    int line(int original) {
        return 1 + (int) author.substring(0, original).chars().filter(each -> each == '\n').count();
    }

    /** Counted from 0. */
    int column(int original) {
        return original - 1 - author.lastIndexOf('\n', original - 1);
    }

    String lineText(int original) {
        int start = author.lastIndexOf('\n', original - 1) + 1;
        int end = author.indexOf('\n', start);
        return author.substring(start, end < 0 ? author.length() : end).replace("\r", "");
    }

    /** Makes stack traces name the author's lines. */
    void keepLines(CompilationUnitTree unit) {
        if (parts.size() == 1 && parts.get(0).original == 0 && parts.get(0).start == 0) {
            return;
        }
        JCCompilationUnit tree = (JCCompilationUnit) unit;
        Position.LineMap before = tree.lineMap;
        tree.lineMap = new Position.LineMap() {
            @Override
            public int getLineNumber(int position) {
                return line(original(position));
            }

            @Override
            public long getLineNumber(long position) {
                return getLineNumber((int) position);
            }

            @Override
            public int getStartPosition(int line) {
                return before.getStartPosition(line);
            }

            @Override
            public long getStartPosition(long line) {
                return before.getStartPosition(line);
            }

            @Override
            public int getPosition(int line, int column) {
                return before.getPosition(line, column);
            }

            @Override
            public long getPosition(long line, long column) {
                return before.getPosition(line, column);
            }

            @Override
            public int getColumnNumber(int position) {
                return before.getColumnNumber(position);
            }

            @Override
            public long getColumnNumber(long position) {
                return before.getColumnNumber(position);
            }
        };
    }
}
