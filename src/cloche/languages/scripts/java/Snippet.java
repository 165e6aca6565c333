import com.sun.source.util.JavacTask;
import com.sun.tools.javac.api.BasicJavacTask;
import com.sun.tools.javac.parser.Scanner;
import com.sun.tools.javac.parser.ScannerFactory;
import com.sun.tools.javac.parser.Tokens.Token;
import com.sun.tools.javac.parser.Tokens.TokenKind;
import java.io.Writer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileManager;

/**
 * Code without a class, as people write it in a chat: statements become `main`, methods and fields become static
 * members of a class around it. A file that has nothing but types is left as it is.
 */
final class Snippet {
    /** What JShell imports by itself, and what else code in chats takes for granted. */
    private static final String IMPORTS = "import java.io.*; import java.math.*; import java.net.*; "
            + "import java.nio.charset.*; import java.nio.file.*; import java.time.*; import java.util.*; "
            + "import java.util.concurrent.*; import java.util.concurrent.atomic.*; import java.util.function.*; "
            + "import java.util.regex.*; import java.util.stream.*; ";
    private static final Set<TokenKind> MODIFIERS = EnumSet.of(TokenKind.PUBLIC, TokenKind.PROTECTED, TokenKind.PRIVATE,
            TokenKind.STATIC, TokenKind.FINAL, TokenKind.ABSTRACT, TokenKind.NATIVE, TokenKind.SYNCHRONIZED,
            TokenKind.TRANSIENT, TokenKind.VOLATILE, TokenKind.STRICTFP, TokenKind.DEFAULT);
    private static final Set<TokenKind> ENDS_OF_TYPES = EnumSet.of(TokenKind.IDENTIFIER, TokenKind.GT, TokenKind.GTGT,
            TokenKind.GTGTGT, TokenKind.RBRACKET, TokenKind.VOID, TokenKind.INT, TokenKind.LONG, TokenKind.SHORT,
            TokenKind.BYTE, TokenKind.CHAR, TokenKind.BOOLEAN, TokenKind.FLOAT, TokenKind.DOUBLE);

    private enum Kind { PACKAGE, IMPORT, TYPE, METHOD, FIELD, VARIABLE, STATEMENT }

    /** From where to where in the text; the name is that of a type, method, field or variable. */
    private record Piece(Kind kind, int start, int end, boolean isStatic, String name) {}

    private final String text;
    private final List<Token> tokens = new ArrayList<>();
    private final List<Piece> pieces = new ArrayList<>();

    private Snippet(String text, JavaCompiler compiler, JavaFileManager files) {
        this.text = text;
        // Only for its scanner; it compiles nothing, and what it would say is said later.
        JavacTask task = (JavacTask) compiler.getTask(Writer.nullWriter(), files, said -> {}, null, null, List.of());
        Scanner scanner = ScannerFactory.instance(((BasicJavacTask) task).getContext()).newScanner(text, false);
        for (scanner.nextToken(); scanner.token().kind != TokenKind.EOF; scanner.nextToken()) {
            tokens.add(scanner.token());
        }
        split();
    }

    /** The entry as the compiler is to see it. */
    static Source complete(Path path, String text, JavaCompiler compiler, JavaFileManager files) {
        Snippet snippet = new Snippet(text, compiler, files);
        Source made = snippet.isWhole() ? new Source(path, text) : snippet.wrap(path);
        made.packageName = snippet.packageName();
        return made;
    }

    private boolean isWhole() {
        return pieces.stream().allMatch(piece -> piece.kind.compareTo(Kind.TYPE) <= 0)
                && (pieces.isEmpty() || pieces.stream().anyMatch(piece -> piece.kind == Kind.TYPE));
    }

    private String packageName() {
        StringBuilder name = new StringBuilder();
        if (!tokens.isEmpty() && tokens.get(0).kind == TokenKind.PACKAGE) {
            for (int index = 1; index < tokens.size() && tokens.get(index).kind != TokenKind.SEMI; index++) {
                name.append(text, tokens.get(index).pos, tokens.get(index).endPos);
            }
        }
        return name.toString();
    }

    private Source wrap(Path path) {
        Source made = new Source(path, text, false);
        String name = freeName(path);
        copy(made, Kind.PACKAGE);
        made.add(IMPORTS);
        copy(made, Kind.IMPORT);
        List<Piece> members = members();
        boolean nested = members.stream().anyMatch(piece -> piece.kind != Kind.TYPE);
        made.add("\n");
        if (!nested) {
            copy(made, Kind.TYPE);
        }
        made.add("\npublic class " + name + " {\n");
        Piece main = pieces.stream().filter(each -> each.kind == Kind.METHOD && each.name.equals("main")).findFirst()
                .orElse(null);
        for (Piece piece : nested ? members : List.<Piece>of()) {
            made.add(piece == main && takesWords(main) && !head(main).contains("public") ? "public " : "");
            made.add(piece.isStatic ? "" : "static ");
            copy(made, piece);
        }
        if (main == null) {
            made.add("public static void main(String[] args) throws Throwable {\n");
        }
        // Beside a main method they are wrong, and the author is to hear of it.
        pieces.stream().filter(piece -> piece.kind.compareTo(Kind.METHOD) >= 0 && !members.contains(piece))
                .forEach(piece -> copy(made, piece));
        if (main == null) {
            made.add("}\n");
        } else if (!takesWords(main)) {
            made.add("public static void main(String[] args) throws Throwable { main(); }\n");
        }
        made.add("}\n");
        made.mainClass = (packageName().isEmpty() ? "" : packageName() + ".") + name;
        return made;
    }

    /** What becomes part of the class; variables only if a method needs them and no statement comes before. */
    private List<Piece> members() {
        List<Piece> found = new ArrayList<>();
        boolean inStatements = false;
        for (Piece piece : pieces) {
            inStatements |= piece.kind == Kind.STATEMENT;
            boolean isShared = piece.kind == Kind.VARIABLE && !inStatements && isUsedByMethods(piece.name);
            if (piece.kind == Kind.TYPE || piece.kind == Kind.METHOD || piece.kind == Kind.FIELD || isShared) {
                found.add(piece);
            }
        }
        return found;
    }

    private boolean isUsedByMethods(String name) {
        for (Piece piece : pieces) {
            if (piece.kind != Kind.METHOD && piece.kind != Kind.TYPE) {
                continue;
            }
            for (Token token : tokens) {
                if (token.pos >= piece.start && token.endPos <= piece.end && token.kind == TokenKind.IDENTIFIER
                        && token.name().contentEquals(name)) {
                    return true;
                }
            }
        }
        return false;
    }

    private boolean takesWords(Piece main) {
        return head(main).contains("String");
    }

    private String head(Piece method) {
        int open = text.indexOf('(', method.start);
        return text.substring(method.start, text.indexOf(')', open) + 1);
    }

    private String freeName(Path path) {
        String wanted = path.getFileName().toString().replaceAll("\\.java$", "").replaceAll("\\W", "_");
        if (wanted.isEmpty() || Character.isDigit(wanted.charAt(0))) {
            wanted = "Main";
        }
        Set<String> taken = new HashSet<>();
        pieces.forEach(piece -> taken.add(piece.kind == Kind.TYPE ? piece.name : ""));
        while (taken.contains(wanted)) {
            wanted += "_";
        }
        return wanted;
    }

    private void copy(Source made, Kind kind) {
        pieces.stream().filter(piece -> piece.kind == kind).forEach(piece -> copy(made, piece));
    }

    private void copy(Source made, Piece piece) {
        made.copy(piece.start, piece.end);
        made.add("\n");
    }

    /** Cuts the text where a declaration or a statement ends. */
    private void split() {
        int depth = 0;
        int start = 0;
        for (int index = 0; index < tokens.size(); index++) {
            switch (tokens.get(index).kind) {
                case LPAREN, LBRACE, LBRACKET -> depth++;
                case RPAREN, RBRACE, RBRACKET -> depth--;
                default -> { }
            }
            TokenKind kind = tokens.get(index).kind;
            boolean last = index == tokens.size() - 1;
            if (last || (depth <= 0 && (kind == TokenKind.SEMI || kind == TokenKind.RBRACE))) {
                pieces.add(describe(start, index));
                start = index + 1;
                depth = 0;
            }
        }
    }

    /** What the tokens from one to another are. */
    private Piece describe(int from, int to) {
        int first = tokens.get(from).pos;
        int end = tokens.get(to).endPos;
        boolean isStatic = false;
        boolean isMarked = false; // by a modifier that no local variable has
        int at = from;
        while (at <= to) {
            TokenKind kind = kind(at);
            if (kind == TokenKind.MONKEYS_AT && kind(at + 1) != TokenKind.INTERFACE) {
                at = afterAnnotation(at);
            } else if (MODIFIERS.contains(kind) && !(kind == TokenKind.SYNCHRONIZED && kind(at + 1) == TokenKind.LPAREN)
                    || isWord(at, "sealed") && kind(at + 1) != TokenKind.EQ) {
                isStatic |= kind == TokenKind.STATIC;
                isMarked |= kind != TokenKind.FINAL;
                at++;
            } else if (isWord(at, "non") && kind(at + 1) == TokenKind.SUB && isWord(at + 2, "sealed")) {
                at += 3;
            } else {
                break;
            }
        }
        return switch (kind(at)) {
            case PACKAGE -> new Piece(Kind.PACKAGE, first, end, true, "");
            case IMPORT -> new Piece(Kind.IMPORT, first, end, true, "");
            case CLASS, INTERFACE, ENUM -> new Piece(Kind.TYPE, first, end, isStatic, nameAt(at + 1));
            case MONKEYS_AT -> new Piece(Kind.TYPE, first, end, isStatic, nameAt(at + 2));
            default -> {
                if (isWord(at, "record") && kind(at + 1) == TokenKind.IDENTIFIER
                        && (kind(at + 2) == TokenKind.LPAREN || kind(at + 2) == TokenKind.LT)) {
                    yield new Piece(Kind.TYPE, first, end, isStatic, nameAt(at + 1));
                }
                int open = at;
                while (open <= to && !endsHead(kind(open))) {
                    open++;
                }
                String name = open > from ? nameAt(open - 1) : "";
                boolean isTyped = open - 1 > at && kind(open - 1) == TokenKind.IDENTIFIER
                        && ENDS_OF_TYPES.contains(kind(open - 2));
                if (isTyped && kind(open) == TokenKind.LPAREN && isBody(afterGroup(open))) {
                    yield new Piece(Kind.METHOD, first, end, isStatic, name);
                }
                if (isMarked && isTyped) {
                    yield new Piece(Kind.FIELD, first, end, isStatic, name);
                }
                boolean isVariable = isTyped && kind(open) != TokenKind.LPAREN && !isWord(at, "var")
                        && kind(to) == TokenKind.SEMI;
                yield new Piece(isVariable ? Kind.VARIABLE : Kind.STATEMENT, first, end, isStatic, name);
            }
        };
    }

    private static boolean endsHead(TokenKind kind) {
        return kind == TokenKind.LPAREN || kind == TokenKind.EQ || kind == TokenKind.SEMI || kind == TokenKind.LBRACE
                || kind == TokenKind.COLON || kind == TokenKind.ARROW;
    }

    private boolean isBody(int at) {
        return kind(at) == TokenKind.LBRACE || kind(at) == TokenKind.THROWS;
    }

    private int afterAnnotation(int at) {
        at += 2;
        while (kind(at) == TokenKind.DOT) {
            at += 2;
        }
        return kind(at) == TokenKind.LPAREN ? afterGroup(at) : at;
    }

    /** The token behind what a parenthesis encloses. */
    private int afterGroup(int open) {
        int depth = 0;
        for (int at = open; at < tokens.size(); at++) {
            depth += kind(at) == TokenKind.LPAREN ? 1 : kind(at) == TokenKind.RPAREN ? -1 : 0;
            if (depth == 0) {
                return at + 1;
            }
        }
        return tokens.size();
    }

    private TokenKind kind(int at) {
        return at >= 0 && at < tokens.size() ? tokens.get(at).kind : TokenKind.EOF;
    }

    private boolean isWord(int at, String word) {
        return kind(at) == TokenKind.IDENTIFIER && tokens.get(at).name().contentEquals(word);
    }

    private String nameAt(int at) {
        return kind(at) == TokenKind.IDENTIFIER ? tokens.get(at).name().toString() : "";
    }
}
