package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// module is the contents of a go.mod.
type module struct {
	path     string
	language string            // "1.22"
	replaced map[string]string // modules whose source is in a folder of the project
}

// unit is a package of the program that is compiled here.
type unit struct {
	path     string // the compiler's name for it
	files    []string
	local    map[string]*unit // packages of the program that it imports, by import name
	standard []string         // packages of the standard library that it imports
	language string
	archive  string
	loading  bool
}

// imported is an import and its position.
type imported struct{ path, place string }

var (
	ownMain  = regexp.MustCompile(`(?m)^func\s+main\s*\(\s*\)`)
	ownTests = regexp.MustCompile(`(?m)^func\s+(Test[^a-z\s]\w*|Test)\s*\(\s*\w+\s+\*testing\.T\s*\)`)
	matching = build.Context{GOOS: runtime.GOOS, GOARCH: runtime.GOARCH, Compiler: "gc", CgoEnabled: true,
		ReleaseTags: build.Default.ReleaseTags, ToolTags: build.Default.ToolTags}
)

// reached returns all packages of the program that this one needs.
func (u *unit) reached() map[*unit]bool {
	found := map[*unit]bool{}
	var visit func(*unit)
	visit = func(each *unit) {
		for _, next := range each.local {
			if !found[next] {
				found[next] = true
				visit(next)
			}
		}
	}
	visit(u)
	return found
}

// load finds the program's packages, dependencies first.
func (b *builder) load() error {
	main := &unit{path: "main", language: b.module.language, loading: true}
	b.units[filepath.Dir(b.entry)] = main
	text, err := os.ReadFile(b.entry)
	if err != nil {
		return err
	}
	var others []string
	if !b.alone {
		if hasAssembly(filepath.Dir(b.entry)) {
			return errRare
		}
		for _, name := range b.siblings() {
			if name != b.entry {
				others = append(others, name)
			}
		}
	}
	entry := b.entry
	testsAlone := !ownMain.Match(text) && len(others) == 0 && ownTests.Match(text)
	header, err := parser.ParseFile(token.NewFileSet(), b.entry, text, parser.PackageClauseOnly)
	if err != nil && !hasPackageClause(text) {
		entry, err = b.complete(text, others)
		if err != nil {
			return err
		}
		if text, err = os.ReadFile(entry); err != nil {
			return err
		}
	} else if err == nil && header.Name.Name != "main" && testsAlone {
		if entry, err = b.rename(text, header.Name); err != nil {
			return err
		}
	} else if err == nil && header.Name.Name != "main" {
		b.complain(b.entry+":1:1", "package %s is not a main package", header.Name.Name)
		return nil
	}
	main.files = append([]string{entry}, others...)
	if testsAlone {
		file, err := b.writeTestMain(ownTests.FindAllSubmatch(text, -1))
		if err != nil {
			return err
		}
		main.files = append(main.files, file)
	}
	return b.follow(main)
}

// rename moves tests of any package into package main; line numbers stay the same.
func (b *builder) rename(text []byte, name *ast.Ident) (string, error) {
	path := filepath.Join(b.scratch, "renamed.go")
	start := int(name.Pos()) - 1 // positions of the only file of its set
	renamed := fmt.Sprintf("//line %s:1:1\n%smain%s", b.entry, text[:start], text[start+len(name.Name):])
	return path, os.WriteFile(path, []byte(renamed), 0o644)
}

// writeTestMain writes a main that runs the tests of code that has nothing else to run.
func (b *builder) writeTestMain(tests [][][]byte) (string, error) {
	var list strings.Builder
	for _, test := range tests {
		fmt.Fprintf(&list, "{Name: %q, F: %s}, ", test[1], test[1])
	}
	path := filepath.Join(b.scratch, "tests.go")
	return path, os.WriteFile(path, []byte(fmt.Sprintf(`package main

import (
	"os"
	"testing"
)

func main() {
	os.Args = append(os.Args[:1:1], append([]string{"-test.v"}, os.Args[1:]...)...)
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{%s}, nil, nil)
}
`, list.String())), 0o644)
}

// siblings returns the files of the program's own package: those beside the entry that are not programs themselves.
func (b *builder) siblings() []string {
	folder, found := filepath.Dir(b.entry), []string{b.entry}
	if b.alone {
		return found
	}
	text, _ := os.ReadFile(b.entry)
	for _, name := range goFiles(folder) {
		file := filepath.Join(folder, name)
		if file == b.entry {
			continue
		}
		other, err := os.ReadFile(file)
		if err != nil || (ownMain.Match(other) && (ownMain.Match(text) || !hasPackageClause(text))) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, other, parser.PackageClauseOnly)
		if err != nil || parsed.Name.Name == "main" {
			found = append(found, file)
		}
	}
	return found
}

// follow reads a package's files, and loads the packages that they import.
func (b *builder) follow(u *unit) error {
	var wanted []imported
	set := token.NewFileSet()
	for _, file := range u.files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "//go:embed ") {
			return errRare
		}
		parsed, err := parser.ParseFile(set, file, text, parser.ImportsOnly)
		if parsed == nil || err != nil {
			continue // the compiler's message is better
		}
		for _, each := range parsed.Imports {
			if value, err := strconv.Unquote(each.Path.Value); err == nil {
				wanted = append(wanted, imported{value, set.Position(each.Path.Pos()).String()})
			}
		}
	}
	u.local = map[string]*unit{}
	for _, each := range wanted {
		if err := b.resolve(u, each); err != nil {
			return err
		}
	}
	u.loading = false
	b.order = append(b.order, u)
	return nil
}

// resolve finds the package of an import.
func (b *builder) resolve(u *unit, wanted imported) error {
	if wanted.path == "C" {
		b.usesC = true
		return errRare
	}
	if wanted.path == "unsafe" || u.local[wanted.path] != nil {
		return nil
	}
	folder, canonical := b.locate(u, wanted.path)
	if folder == "" {
		if b.isStandard(wanted.path) {
			if isInternal(wanted.path) {
				b.complain(wanted.place, "use of internal package %s not allowed", wanted.path)
			}
			u.standard = append(u.standard, wanted.path)
			return nil
		}
		return b.miss(wanted)
	}
	found, err := b.loadFolder(folder, canonical, wanted)
	if found != nil {
		u.local[wanted.path] = found
	}
	return err
}

// loadFolder loads the package in a folder, once.
func (b *builder) loadFolder(folder, canonical string, wanted imported) (*unit, error) {
	if known := b.units[folder]; known != nil {
		if known.path == "main" {
			b.complain(wanted.place, "import %q is a program, not an importable package", wanted.path)
			return nil, nil
		}
		if known.loading {
			b.complain(wanted.place, "import cycle not allowed: %s", wanted.path)
			return nil, nil
		}
		return known, nil
	}
	u := &unit{path: canonical, language: b.module.language, loading: true}
	b.units[folder] = u
	packages := map[string]string{}
	for _, name := range goFiles(folder) {
		file := filepath.Join(folder, name)
		u.files = append(u.files, file)
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly)
		if err == nil {
			packages[parsed.Name.Name] = name
		}
	}
	if len(packages) > 1 {
		b.complain(wanted.place, "the folder %s has files of several packages", folder)
	}
	if _, isProgram := packages["main"]; isProgram {
		b.complain(wanted.place, "import %q is a program, not an importable package", wanted.path)
	}
	if hasAssembly(folder) {
		return nil, errRare
	}
	return u, b.follow(u)
}

// locate returns the folder of an import and the package's own name; empty if it is not in the project.
func (b *builder) locate(u *unit, name string) (folder, canonical string) {
	if strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") {
		folder = filepath.Join(filepath.Dir(u.files[0]), name)
		if u.path == "main" {
			folder = filepath.Join(filepath.Dir(b.entry), name)
		}
		return onlyWithCode(folder, b.inProject(folder))
	}
	if b.module.path != "" {
		if rest, isOurs := below(name, b.module.path); isOurs {
			return onlyWithCode(filepath.Join(b.root, rest), name)
		}
		for replaced, place := range b.module.replaced {
			if rest, isReplaced := below(name, replaced); isReplaced {
				return onlyWithCode(filepath.Join(b.root, place, rest), name)
			}
		}
	}
	if folder, canonical = onlyWithCode(filepath.Join(b.root, "vendor", name), name); folder != "" {
		return folder, canonical
	}
	if b.module.path != "" || b.isStandard(name) {
		return "", ""
	}
	// Without a go.mod the module has no name: any name that the imports use is accepted.
	for rest := name; ; {
		folder = filepath.Join(b.root, rest)
		if folder, canonical = onlyWithCode(folder, b.inProject(folder)); folder != "" {
			return folder, canonical
		}
		_, after, more := strings.Cut(rest, "/")
		if !more {
			return "", ""
		}
		rest = after
	}
}

// inProject names a package by its folder; no package of the standard library has such a name.
func (b *builder) inProject(folder string) string {
	relative, err := filepath.Rel(b.root, folder)
	if err != nil {
		relative = folder
	}
	return path.Join("project.local", filepath.ToSlash(relative))
}

func (b *builder) isStandard(name string) bool {
	status, err := os.Stat(filepath.Join(b.goRoot, "src", name))
	return err == nil && status.IsDir()
}

// miss reports an import that was not found.
func (b *builder) miss(wanted imported) error {
	if b.goHasModules() {
		return errRare
	}
	first, _, _ := strings.Cut(wanted.path, "/")
	if strings.Contains(first, ".") {
		b.complain(wanted.place, "the package %s is not here, and nothing is downloaded: add its source in vendor/%s",
			wanted.path, wanted.path)
	} else {
		b.complain(wanted.place, "package %s is neither in the standard library nor a folder of this project", wanted.path)
	}
	return nil
}

// goHasModules tells whether modules were downloaded, or the go command is configured to.
func (b *builder) goHasModules() bool {
	if b.module.path == "" {
		return false
	}
	if proxy := os.Getenv("GOPROXY"); proxy != "" && proxy != "off" {
		return true
	}
	home, _ := os.UserHomeDir()
	_, err := os.Stat(filepath.Join(home, "go", "pkg", "mod", "cache"))
	return err == nil
}

// goFiles returns the names of a folder's files for this system, without tests.
func goFiles(folder string) []string {
	var found []string
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if matches, err := matching.MatchFile(folder, name); matches || (err != nil && !errors.Is(err, fs.ErrNotExist)) {
			found = append(found, name)
		}
	}
	return found
}

func hasAssembly(folder string) bool {
	found, _ := filepath.Glob(filepath.Join(folder, "*.s"))
	return len(found) > 0
}

func onlyWithCode(folder, canonical string) (string, string) {
	if len(goFiles(folder)) == 0 {
		return "", ""
	}
	return folder, canonical
}

// below removes a module's name from an import.
func below(name, module string) (string, bool) {
	if name == module {
		return "", true
	}
	rest := strings.TrimPrefix(name, module+"/") // not CutPrefix: this builds with Debian 12's Go 1.19 as well
	return rest, rest != name
}

// isKnown tells whether this compiler knows that version of the language.
func isKnown(release string) bool {
	for _, each := range matching.ReleaseTags {
		if each == release {
			return true
		}
	}
	return false
}

func isInternal(name string) bool {
	for _, part := range strings.Split(name, "/") {
		if part == "internal" {
			return true
		}
	}
	return false
}

// readModule reads the parts of a go.mod that matter here.
func readModule(root string) module {
	found := module{replaced: map[string]string{}}
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return found
	}
	block := ""
	for _, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		if len(words) == 2 && words[1] == "(" {
			block = words[0]
			continue
		}
		if len(words) == 1 && words[0] == ")" {
			block = ""
			continue
		}
		if block != "" {
			words = append([]string{block}, words...)
		}
		found.take(words)
	}
	return found
}

func (m *module) take(words []string) {
	if len(words) < 2 {
		return
	}
	switch words[0] {
	case "module":
		m.path = strings.Trim(words[1], "\"`")
	case "go":
		parts := strings.SplitN(words[1], ".", 3)
		// A newer version than this compiler's is treated as the compiler's own, as the go command does.
		if len(parts) >= 2 && isKnown("go"+parts[0]+"."+parts[1]) {
			m.language = parts[0] + "." + parts[1]
		}
	case "replace":
		last := words[len(words)-1]
		if strings.HasPrefix(last, "./") || strings.HasPrefix(last, "../") {
			m.replaced[words[1]] = last
		}
	}
}
