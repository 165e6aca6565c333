package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// piece is a declaration or a statement at the top of a snippet, with the white space and comments before it.
type piece struct {
	kind       token.Token // of the token that it begins with; ILLEGAL for a statement
	start, end int
	name       string // of a function
}

// complete makes a program from code without a package clause, and returns its path.
//
// Statements become `func main`, and packages of the standard library that are used are imported. Line directives tell
// the compiler where each piece was, so that errors name the lines and columns that the author knows.
func (b *builder) complete(text []byte, others []string) (string, error) {
	pieces := split(text)
	var statements, declarations, imports []piece
	hasMain := false
	for _, each := range pieces {
		switch {
		case each.kind == token.IMPORT:
			imports = append(imports, each)
		case each.kind == token.ILLEGAL, each.kind == token.VAR && len(statements) > 0:
			statements = append(statements, each)
		default:
			declarations = append(declarations, each)
			hasMain = hasMain || (each.kind == token.FUNC && each.name == "main")
		}
	}
	if hasMain {
		statements, declarations, imports = nil, nil, pieces // unchanged: the author should see what does not belong
	}
	render := func(missing []string) string {
		var out strings.Builder
		out.WriteString("package main\n")
		for _, name := range missing {
			fmt.Fprintf(&out, "import %q\n", name)
		}
		b.writePieces(&out, text, imports)
		b.writePieces(&out, text, declarations)
		if !hasMain && (len(statements) > 0 || !ownTests.Match(text)) {
			out.WriteString("func main() {\n")
			b.writePieces(&out, text, statements)
			out.WriteString("}\n")
		}
		return out.String()
	}
	path := filepath.Join(b.scratch, "completed.go")
	whole := render(nil)
	whole = render(missingImports(whole, others))
	return path, os.WriteFile(path, []byte(whole), 0o644)
}

func (b *builder) writePieces(out *strings.Builder, text []byte, pieces []piece) {
	for _, each := range pieces {
		before := string(text[:each.start])
		line := strings.Count(before, "\n") + 1
		column := each.start - strings.LastIndex(before, "\n")
		fmt.Fprintf(out, "/*line %s:%d:%d*/%s\n", b.entry, line, column, text[each.start:each.end])
	}
}

// split splits a text where a declaration or a statement ends.
func split(text []byte) []piece {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(text))
	var scan scanner.Scanner
	scan.Init(file, text, func(token.Position, string) {}, 0) // the compiler reports errors
	var pieces []piece
	var inside []token.Token // of the current piece
	var names []string
	depth, start := 0, 0
	for {
		position, kind, literal := scan.Scan()
		offset := file.Offset(position)
		if kind == token.EOF || (kind == token.SEMICOLON && depth <= 0) {
			end := offset
			if kind == token.SEMICOLON && literal == ";" && end < len(text) {
				end++
			}
			if len(inside) > 0 {
				pieces = append(pieces, describe(inside, names, start, end))
			}
			if kind == token.EOF {
				return pieces
			}
			inside, names, depth, start = nil, nil, 0, end
			continue
		}
		switch kind {
		case token.LPAREN, token.LBRACE, token.LBRACK:
			depth++
		case token.RPAREN, token.RBRACE, token.RBRACK:
			depth--
		}
		inside, names = append(inside, kind), append(names, literal)
	}
}

// describe tells a declaration from a statement.
func describe(inside []token.Token, names []string, start, end int) piece {
	made := piece{token.ILLEGAL, start, end, ""}
	switch inside[0] {
	case token.IMPORT, token.CONST, token.TYPE, token.VAR:
		made.kind = inside[0]
	case token.FUNC:
		if len(inside) > 1 && inside[1] == token.IDENT {
			made.kind, made.name = token.FUNC, names[1]
		} else if isMethod(inside) {
			made.kind = token.FUNC
		}
	}
	return made
}

// isMethod tells `func (r T) Name(`, a method, from `func(a int) {`, a function that is called at once.
func isMethod(inside []token.Token) bool {
	depth := 0
	for index, kind := range inside[1:] {
		switch kind {
		case token.LPAREN:
			depth++
		case token.RPAREN:
			depth--
		}
		if depth == 0 {
			after := inside[index+2:]
			return len(after) > 1 && after[0] == token.IDENT && after[1] == token.LPAREN
		}
	}
	return false
}

// missingImports returns the packages of the standard library that a file uses and does not import.
func missingImports(text string, others []string) []string {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, 0)
	if err != nil {
		return nil
	}
	declared := map[string]bool{}
	for _, each := range file.Imports {
		path := strings.Trim(each.Path.Value, "\"`")
		declared[path[strings.LastIndex(path, "/")+1:]] = true
		if each.Name != nil {
			declared[each.Name.Name] = true
		}
	}
	for _, name := range others {
		if parsed, err := parser.ParseFile(set, name, nil, 0); err == nil && parsed.Scope != nil {
			for each := range parsed.Scope.Objects {
				declared[each] = true
			}
		}
	}
	unresolved := map[*ast.Ident]bool{}
	for _, each := range file.Unresolved {
		unresolved[each] = true
	}
	var missing []string
	ast.Inspect(file, func(node ast.Node) bool {
		selector, isSelector := node.(*ast.SelectorExpr)
		if !isSelector {
			return true
		}
		if name, isName := selector.X.(*ast.Ident); isName && unresolved[name] && !declared[name.Name] {
			if path := packageNamed(name.Name, selector.Sel.Name); path != "" {
				declared[name.Name] = true
				missing = append(missing, path)
			}
		}
		return true
	})
	return missing
}

// hasPackageClause tells whether the first word that is not a comment is `package`.
func hasPackageClause(text []byte) bool {
	set := token.NewFileSet()
	var scan scanner.Scanner
	scan.Init(set.AddFile("", set.Base(), len(text)), text, func(token.Position, string) {}, 0)
	_, kind, _ := scan.Scan()
	return kind == token.PACKAGE
}
