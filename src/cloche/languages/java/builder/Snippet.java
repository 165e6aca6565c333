import com.sun.source.util.JavacTask;
import com.sun.tools.javac.api.BasicJavacTask;
import com.sun.tools.javac.parser.Scanner;
import com.sun.tools.javac.parser.ScannerFactory;
import com.sun.tools.javac.parser.Tokens.Token;
import com.sun.tools.javac.parser.Tokens.TokenKind;
import com.sun.tools.javac.util.Context;
import com.sun.tools.javac.util.Log;
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
 * Completes code without a class, as people write it in chats: statements become `main`, methods and fields become
 * static members of a class around them. A file that contains only types stays as it is.
 */
final class Snippet {
    /** Imports that JShell adds, and others that code in chats takes for granted. */
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

    /** A range of the text; the names are those of a type, a method, or fields or variables. */
    private record Piece(Kind kind, int start, int end, boolean isStatic, List<String> names) {}

    private final String text;
    private final List<Token> tokens = new ArrayList<>();
    private final List<Piece> pieces = new ArrayList<>();

    private Snippet(Path path, String text, JavaCompiler compiler, JavaFileManager files) {
        this.text = text;
        // Only for its scanner: it compiles nothing, and errors are reported later.
        JavacTask task = (JavacTask) compiler.getTask(Writer.nullWriter(), files, said -> {}, null, null, List.of());
        Context context = ((BasicJavacTask) task).getContext();
        Log.instance(context).useSource(new Source(path, text)); // the scanner needs a file to report bad characters
        Scanner scanner = ScannerFactory.instance(context).newScanner(text, false);
        for (scanner.nextToken(); scanner.token().kind != TokenKind.EOF; scanner.nextToken()) {
            tokens.add(scanner.token());
        }
        split();
    }

    /** Returns the entry as the compiler shall see it. */
    static Source complete(Path path, String text, JavaCompiler compiler, JavaFileManager files) {
        Snippet snippet = new Snippet(path, text, compiler, files);
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
        Piece main = pieces.stream().filter(each -> each.kind == Kind.METHOD && each.names.contains("main"))
                .findFirst().orElse(null);
        for (Piece piece : nested ? members : List.<Piece>of()) {
            made.add(piece == main && takesWords(main) && !head(main).contains("public") ? "public " : "");
            made.add(piece.isStatic ? "" : "static ");
            copy(made, piece);
        }
        if (main == null) {
            made.add("public static void main(String[] args) throws Throwable {\n");
        }
        // Beside a main method they are errors, and the author should see them.
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

    /** Finds the members of the class; variables only if a member needs them and no statement precedes them. */
    private List<Piece> members() {
        Set<String> used = new HashSet<>();
        pieces.stream().filter(Snippet::isMember).forEach(piece -> addIdentifiers(piece, used));
        int statements = 0;
        while (statements < pieces.size() && pieces.get(statements).kind != Kind.STATEMENT) {
            statements++;
        }
        Set<Piece> shared = new HashSet<>();
        for (int index = statements - 1; index >= 0; index--) { // backwards: a variable may use those declared before it
            Piece piece = pieces.get(index);
            if (piece.kind == Kind.VARIABLE && piece.names.stream().anyMatch(used::contains)) {
                shared.add(piece);
                addIdentifiers(piece, used);
            }
        }
        return pieces.stream().filter(piece -> isMember(piece) || shared.contains(piece)).toList();
    }

    private static boolean isMember(Piece piece) {
        return piece.kind == Kind.TYPE || piece.kind == Kind.METHOD || piece.kind == Kind.FIELD;
    }

    private void addIdentifiers(Piece piece, Set<String> found) {
        for (Token token : tokens) {
            if (token.pos >= piece.start && token.endPos <= piece.end && token.kind == TokenKind.IDENTIFIER) {
                found.add(token.name().toString());
            }
        }
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
        pieces.stream().filter(piece -> piece.kind == Kind.TYPE).forEach(piece -> taken.addAll(piece.names));
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

    /** Splits the text where a declaration or a statement ends. */
    private void split() {
        int depth = 0;
        int start = 0;
        boolean isAssigned = false; // then a brace ends only an array, a lambda or an anonymous class
        for (int index = 0; index < tokens.size(); index++) {
            TokenKind kind = tokens.get(index).kind;
            switch (kind) {
                case LPAREN, LBRACE, LBRACKET -> depth++;
                case RPAREN, RBRACE, RBRACKET -> depth--;
                case EQ -> isAssigned |= depth <= 0;
                default -> { }
            }
            boolean last = index == tokens.size() - 1;
            if (last || (depth <= 0 && (kind == TokenKind.SEMI || kind == TokenKind.RBRACE && !isAssigned))) {
                pieces.add(describe(start, index));
                start = index + 1;
                depth = 0;
                isAssigned = false;
            }
        }
    }

    /** Describes the tokens of a range: a type, a method, a field or a statement. */
    private Piece describe(int from, int to) {
        int first = tokens.get(from).pos;
        int end = tokens.get(to).endPos;
        boolean isStatic = false;
        boolean isMarked = false; // has a modifier that local variables cannot have
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
            case PACKAGE -> new Piece(Kind.PACKAGE, first, end, true, List.of());
            case IMPORT -> new Piece(Kind.IMPORT, first, end, true, List.of());
            case CLASS, INTERFACE, ENUM -> new Piece(Kind.TYPE, first, end, isStatic, List.of(nameAt(at + 1)));
            case MONKEYS_AT -> new Piece(Kind.TYPE, first, end, isStatic, List.of(nameAt(at + 2)));
            case LBRACE -> new Piece(isStatic ? Kind.FIELD : Kind.STATEMENT, first, end, isStatic, List.of());
            default -> {
                if (isWord(at, "record") && kind(at + 1) == TokenKind.IDENTIFIER
                        && (kind(at + 2) == TokenKind.LPAREN || kind(at + 2) == TokenKind.LT)) {
                    yield new Piece(Kind.TYPE, first, end, isStatic, List.of(nameAt(at + 1)));
                }
                int open = afterHead(at, to);
                int name = open - 1;
                while (kind(name) == TokenKind.RBRACKET && kind(name - 1) == TokenKind.LBRACKET) {
                    name -= 2; // int squares[]
                }
                boolean isTyped = name > at && kind(name) == TokenKind.IDENTIFIER
                        && ENDS_OF_TYPES.contains(kind(name - 1));
                if (isTyped && kind(open) == TokenKind.LPAREN && isBody(afterGroup(open))) {
                    yield new Piece(Kind.METHOD, first, end, isStatic, List.of(nameAt(name)));
                }
                if (isMarked && isTyped) {
                    yield new Piece(Kind.FIELD, first, end, isStatic, List.of(nameAt(name)));
                }
                boolean isVariable = isTyped && kind(open) != TokenKind.LPAREN && !isWord(at, "var")
                        && kind(to) == TokenKind.SEMI;
                yield isVariable ? new Piece(Kind.VARIABLE, first, end, isStatic, declared(name, to))
                        : new Piece(Kind.STATEMENT, first, end, isStatic, List.of());
            }
        };
    }

    /** Returns the token after the type and the name at the beginning of a declaration. */
    private int afterHead(int from, int to) {
        int at = from;
        for (int angles = 0; at <= to; at++) {
            switch (kind(at)) {
                case LT -> angles++;
                case GT -> angles--;
                case GTGT -> angles -= 2;
                case GTGTGT -> angles -= 3;
                default -> { }
            }
            if (endsHead(kind(at)) || kind(at) == TokenKind.COMMA && angles <= 0) {
                break;
            }
        }
        return at;
    }

    /** Returns the names in `int a = 1, b[], c;`, given the position of the first. */
    private List<String> declared(int name, int to) {
        List<String> names = new ArrayList<>(List.of(nameAt(name)));
        int depth = 0;
        for (int at = name; at < to; at++) {
            switch (kind(at)) {
                case LPAREN, LBRACE, LBRACKET -> depth++;
                case RPAREN, RBRACE, RBRACKET -> depth--;
                case COMMA -> names.addAll(depth == 0 ? List.of(nameAt(at + 1)) : List.of());
                default -> { }
            }
        }
        return names;
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

    /** Returns the token after the closing parenthesis. */
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
