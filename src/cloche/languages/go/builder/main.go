// Builds a Go program inside a sandbox from the files there, by calling the compiler and the linker itself.
//
// The go command does the same, but needs a module, a writable cache, and twice the time. It is used only in rare
// cases: C code, embedded files, assembly, modules in its own cache, tests in files of their own.
//
// main.go controls the build, packages.go finds the packages of the program, snippet.go completes code without a
// package clause, imports.go knows the names of the standard library.
// After a change to any of them, raise the version of the preparation in ../definition.py.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// builder holds the request and what is known about the program so far.
type builder struct {
	entry    string // the file to run
	root     string // the folder of the project
	alone    bool   // the entry is the whole program: its folder is ignored
	program  string // path of the result
	scratch  string // folder for intermediate files
	prepared string // the compiled standard library; empty: compile it now
	usesC    bool
	goTool   string // the go command
	goRoot   string
	module   module
	units    map[string]*unit // by folder
	order    []*unit          // order of compilation
	problems []string
}

// errRare means that the go command has to build this program.
var errRare = errors.New("rare")

func main() {
	b := &builder{units: map[string]*unit{}}
	flag.StringVar(&b.root, "root", "", "the project's folder")
	flag.BoolVar(&b.alone, "alone", false, "look at no other file than the entry")
	flag.StringVar(&b.program, "o", "", "where the program goes")
	flag.StringVar(&b.prepared, "prepared", "", "a folder with the compiled standard library")
	flag.StringVar(&b.goTool, "go", "go", "the go command")
	flag.Parse()
	b.entry, b.scratch = flag.Arg(0), filepath.Dir(b.program)
	if err := b.build(); err != nil {
		if text := err.Error(); text != "" {
			fmt.Fprintln(os.Stderr, text)
		}
		os.Exit(1)
	}
}

func (b *builder) build() error {
	real, err := filepath.EvalSymlinks(b.goTool)
	if err != nil {
		return err
	}
	b.goRoot = filepath.Dir(filepath.Dir(real))
	os.Setenv("GOROOT", b.goRoot) // the linker replaces $GOROOT by it
	b.module = readModule(b.root)
	if strings.HasSuffix(b.entry, "_test.go") {
		return b.askGo("test", "-c", "-vet=off")
	}
	err = b.load()
	if errors.Is(err, errRare) {
		return b.askGo("build")
	}
	if err != nil {
		return err
	}
	if len(b.problems) > 0 {
		return errors.New(strings.Join(b.problems, "\n"))
	}
	library, err := b.library()
	if err != nil {
		return err
	}
	return b.compileAndLink(library)
}

// complain records an error of the program; the build goes on to find more of them.
func (b *builder) complain(place, format string, arguments ...any) {
	b.problems = append(b.problems, place+": "+fmt.Sprintf(format, arguments...))
}

// library returns the file that lists the packages of the compiled standard library.
func (b *builder) library() (string, error) {
	if b.prepared != "" {
		return filepath.Join(b.prepared, "importcfg"), nil
	}
	path := filepath.Join(b.scratch, "importcfg.std")
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	wanted := map[string]bool{"runtime": true}
	for _, unit := range b.order {
		for _, name := range unit.standard {
			wanted[name] = true
		}
	}
	arguments := []string{"list", "-export", "-deps", "-gcflags=all=-dwarf=false", "-f",
		"{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}"}
	for name := range wanted {
		arguments = append(arguments, name)
	}
	command := b.goCommand(arguments...)
	command.Dir, command.Stdout = "/", file
	return path, command.Run()
}

func (b *builder) compileAndLink(library string) error {
	tools := filepath.Join(b.goRoot, "pkg", "tool", runtime.GOOS+"_"+runtime.GOARCH)
	known, err := os.ReadFile(library)
	if err != nil {
		return err
	}
	for number, unit := range b.order {
		unit.archive = filepath.Join(b.scratch, fmt.Sprintf("%d.a", number))
		configuration := library
		if len(unit.local) > 0 {
			configuration = unit.archive + ".importcfg"
			if err := writeConfiguration(configuration, known, unit.reached(), unit.local); err != nil {
				return err
			}
		}
		arguments := []string{"-o", unit.archive, "-p", unit.path, "-complete", "-pack", "-dwarf=false",
			"-importcfg", configuration}
		if unit.language != "" {
			arguments = append(arguments, "-lang=go"+unit.language)
		}
		if err := run(filepath.Join(tools, "compile"), append(arguments, unit.files...)...); err != nil {
			return err
		}
	}
	program, configuration := b.order[len(b.order)-1], library
	if len(program.local) > 0 {
		configuration = filepath.Join(b.scratch, "link.importcfg")
		if err := writeConfiguration(configuration, known, program.reached(), nil); err != nil {
			return err
		}
	}
	return run(filepath.Join(tools, "link"), "-o", b.program, "-importcfg", configuration, "-buildmode=exe", "-s", "-w",
		program.archive)
}

// writeConfiguration lists the packages and their import names for the compiler.
func writeConfiguration(path string, known []byte, reached map[*unit]bool, names map[string]*unit) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	writer := bufio.NewWriter(file)
	writer.Write(known)
	for unit := range reached {
		fmt.Fprintf(writer, "packagefile %s=%s\n", unit.path, unit.archive)
	}
	for name, unit := range names {
		if name != unit.path {
			fmt.Fprintf(writer, "importmap %s=%s\n", name, unit.path)
		}
	}
	return writer.Flush()
}

// askGo lets the go command build the program.
func (b *builder) askGo(arguments ...string) error {
	if b.prepared != "" {
		if err := shareCache(filepath.Join(b.prepared, "cache"), b.cache()); err != nil {
			return err
		}
	}
	arguments = append(arguments, "-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-o", b.program)
	if b.module.path != "" {
		arguments = append(arguments, ".")
	} else {
		arguments = append(arguments, b.siblings()...)
	}
	command := b.goCommand(arguments...)
	command.Dir, command.Stdout = filepath.Dir(b.entry), os.Stderr
	return quiet(command.Run())
}

func (b *builder) cache() string { return filepath.Join(b.scratch, "cache") }

func (b *builder) goCommand(arguments ...string) *exec.Cmd {
	command := exec.Command(b.goTool, arguments...)
	command.Env = append(os.Environ(), "GOCACHE="+b.cache(), "GOTOOLCHAIN=local")
	if !b.usesC {
		command.Env = append(command.Env, "CGO_ENABLED=0") // as when the standard library was compiled
	}
	for name, value := range map[string]string{"GOFLAGS": "-buildvcs=false", "GOPROXY": "off"} {
		if _, isSet := os.LookupEnv(name); !isSet {
			command.Env = append(command.Env, name+"="+value)
		}
	}
	command.Stderr = os.Stderr
	return command
}

// shareCache makes a writable cache for the go command from a read-only one.
func shareCache(from, to string) error {
	folders, err := os.ReadDir(from)
	if err != nil {
		return nil // there is none
	}
	for _, folder := range folders {
		source, target := filepath.Join(from, folder.Name()), filepath.Join(to, folder.Name())
		if !folder.IsDir() {
			continue
		}
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		entries, err := os.ReadDir(source)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			err := os.Symlink(filepath.Join(source, entry.Name()), filepath.Join(target, entry.Name()))
			if err != nil && !os.IsExist(err) {
				return err
			}
		}
	}
	return nil
}

func run(program string, arguments ...string) error {
	command := exec.Command(program, arguments...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	return quiet(command.Run())
}

// quiet drops the error of a command that has already printed what is wrong.
func quiet(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return errors.New("")
	}
	return err
}
