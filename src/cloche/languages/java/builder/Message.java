import com.sun.tools.javac.api.ClientCodeWrapper;
import com.sun.tools.javac.util.Context;
import com.sun.tools.javac.util.Log;
import java.io.PrintWriter;
import java.util.Locale;
import javax.tools.Diagnostic;
import javax.tools.JavaFileObject;

/** A message of the compiler, in javac's format, with the line numbers that the author knows. */
final class Message {
    private Message() {}

    static void write(PrintWriter out, Diagnostic<? extends JavaFileObject> said, Source source, Context context) {
        String severity = switch (said.getKind()) {
            case ERROR -> "error";
            case WARNING, MANDATORY_WARNING -> "warning";
            default -> null;
        };
        if (severity == null) {
            return;
        }
        String[] lines = text(said, context).split("\n");
        if (source == null || said.getPosition() < 0) {
            String place = said.getSource() == null ? "" : said.getSource().getName() + ":" + said.getLineNumber() + ": ";
            out.println(place + severity + ": " + String.join("\n", lines));
            return;
        }
        int position = source.original((int) said.getPosition());
        out.println(source.path + ":" + source.line(position) + ": " + severity + ": " + lines[0]);
        String line = source.lineText(position);
        out.println(line);
        int column = Math.min(source.column(position), line.length());
        out.println(line.substring(0, column).replaceAll("[^\t]", " ") + "^");
        for (int index = 1; index < lines.length; index++) {
            out.println("  " + lines[index].strip());
        }
    }

    /** Shortens names as javac does: `String`, not `java.lang.String`. */
    private static String text(Diagnostic<? extends JavaFileObject> said, Context context) {
        if (said instanceof ClientCodeWrapper.DiagnosticSourceUnwrapper wrapped) {
            return Log.instance(context).getDiagnosticFormatter().formatMessage(wrapped.d, Locale.ENGLISH);
        }
        return said.getMessage(Locale.ENGLISH);
    }
}
