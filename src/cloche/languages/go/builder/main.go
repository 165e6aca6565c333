// Builds a Go program inside a sandbox from what lies there, by calling the compiler and the linker itself.
//
// The go command does the same, but wants a module, a cache that it may write, and twice the time. It is asked only
// for what is rare: C code, embedded files, assembly, modules that are in its own cache, tests in files of their own.
//
// main.go is the journey, packages.go finds what belongs to the program, snippet.go completes code that lacks a
// package clause, imports.go knows the names of the standard library.
// Whoever changes any of them counts up the preparation's version in definitions/go.py.
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

// builder holds what was asked for and what is known of the program so far.
type builder struct {
	entry    string // the file to run
	root     string // the folder of the project
	alone    bool   // the entry is all there is: its folder is not looked into
	program  string // where the result goes
	scratch  string // and everything on the way there
	prepared string // the standard library, compiled; empty: it is compiled now
	usesC    bool
	goTool   string // the go command
	goRoot   string
	module   module
	units    map[string]*unit // by folder
	order    []*unit          // in which they are compiled
	problems []string
}

// errRare says that this is nothing for us, but for the go command.
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
	os.Setenv("GOROOT", b.goRoot) // what the linker puts in place of $GOROOT
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

// complain notes what is wrong with the program; building goes on to find more of it.
func (b *builder) complain(place, format string, arguments ...any) {
	b.problems = append(b.problems, place+": "+fmt.Sprintf(format, arguments...))
}

// library is the file that says where the compiled standard library is.
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

// writeConfiguration tells the compiler where the packages are, and by what names one imports them.
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

// askGo has the go command build it.
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
		command.Env = append(command.Env, "CGO_ENABLED=0") // as the standard library was compiled
	}
	for name, value := range map[string]string{"GOFLAGS": "-buildvcs=false", "GOPROXY": "off"} {
		if _, isSet := os.LookupEnv(name); !isSet {
			command.Env = append(command.Env, name+"="+value)
		}
	}
	command.Stderr = os.Stderr
	return command
}

// shareCache makes a cache that the go command may write from one that it may not.
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

// quiet is for commands that have said themselves what is wrong.
func quiet(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return errors.New("")
	}
	return err
}
