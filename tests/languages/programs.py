"""The same few programs in every language, for test_every_language.py.

`everything` prints each argument followed by a bar, then the number of bytes on standard input, then the bytes FF 00 0D
0A; writes "oops" to standard error, and exits with 3.  Programs that a language cannot express are left empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field

RAW = b"\xff\x00\r\n"


@dataclass(frozen=True)
class Programs:
    """The programs of a language; `broken` has an error in line 3, and `project` prints 5."""

    everything: str = ""
    terminated: str = ""  # sends itself SIGTERM
    fails: str = ""  # an uncaught error, "boom"
    broken: str = ""
    project: dict[str, str] = field(default_factory=dict)
    is_compiled: bool = False  # then `broken` has diagnostics
    failure: str = "runtime"  # the kind of error that `fails` ends with


PROGRAMS = {
    "bash": Programs(
        everything="""printf '%s|' "$@"; echo
wc -c
printf '\\377\\000\\r\\n'
echo oops >&2
exit 3
""",
        terminated="kill -TERM $$\n",
        broken="echo one\necho two\nif then\n",
        project={"main.sh": ". lib/sums.sh\nsum 2 3\n", "lib/sums.sh": "sum() { echo $(($1 + $2)); }\n"},
    ),
    "c": Programs(
        everything="""#include <stdio.h>
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) printf("%s|", argv[i]);
    long count = 0;
    while (getchar() != EOF) count++;
    printf("\\n%ld\\n", count);
    fwrite("\\377\\0\\r\\n", 1, 4, stdout);
    fputs("oops\\n", stderr);
    return 3;
}
""",
        terminated="#include <signal.h>\nint main(void) { return raise(SIGTERM); }\n",
        broken="int main(void) {\n    int one = 1;\n    return one + two;\n}\n",
        project={
            "main.c": '#include <stdio.h>\n#include "lib/sums.h"\nint main(void) { printf("%d\\n", sum(2, 3)); }\n',
            "lib/sums.h": "int sum(int a, int b);\n",
            "lib/sums.c": '#include "sums.h"\nint sum(int a, int b) { return a + b; }\n',
        },
        is_compiled=True,
    ),
    "cpp": Programs(
        everything="""#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) std::cout << argv[i] << '|';
    std::string all((std::istreambuf_iterator<char>(std::cin)), {});
    std::cout << '\\n' << all.size() << '\\n' << std::string("\\377\\0\\r\\n", 4);
    std::cerr << "oops\\n";
    return 3;
}
""",
        terminated="#include <csignal>\nint main() { return std::raise(SIGTERM); }\n",
        fails='#include <stdexcept>\nint main() { throw std::runtime_error("boom"); }\n',
        broken="int main() {\n    int one = 1;\n    return one + two;\n}\n",
        project={
            "main.cpp": '#include <iostream>\n#include "lib/sums.hpp"\n'
            "int main() { std::cout << sum(2, 3) << '\\n'; }\n",
            "lib/sums.hpp": "#pragma once\nint sum(int a, int b);\n",
            "lib/sums.cpp": '#include "sums.hpp"\nint sum(int a, int b) { return a + b; }\n',
        },
        is_compiled=True,
    ),
    "go": Programs(
        everything="""package main

import (
\t"fmt"
\t"io"
\t"os"
)

func main() {
\tfor _, word := range os.Args[1:] {
\t\tfmt.Print(word, "|")
\t}
\tcount, _ := io.Copy(io.Discard, os.Stdin)
\tfmt.Printf("\\n%d\\n\\xff\\x00\\r\\n", count)
\tfmt.Fprintln(os.Stderr, "oops")
\tos.Exit(3)
}
""",
        terminated="""package main

import "syscall"

func main() {
\tsyscall.Kill(syscall.Getpid(), syscall.SIGTERM)
\tselect {}
}
""",
        fails='package main\n\nfunc main() { panic("boom") }\n',
        broken="package main\n\nfunc main() { println(two) }\n",
        project={
            "go.mod": "module example.com/sums\n\ngo 1.18\n",
            "main.go": 'package main\n\nimport (\n\t"fmt"\n\n\t"example.com/sums/lib"\n)\n\n'
            "func main() { fmt.Println(lib.Sum(2, 3)) }\n",
            "lib/sums.go": "package lib\n\nfunc Sum(a, b int) int { return a + b }\n",
        },
        is_compiled=True,
    ),
    "java": Programs(
        everything="""public class Main {
    public static void main(String[] args) throws Exception {
        var out = new java.io.PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, "UTF-8");
        for (String word : args) out.print(word + "|");
        long count = 0;
        byte[] buffer = new byte[1 << 16];
        for (int n; (n = System.in.read(buffer)) > 0; ) count += n;
        out.print("\\n" + count + "\\n");
        out.write(new byte[] {(byte) 0xff, 0, '\\r', '\\n'});
        out.flush();
        System.err.println("oops");
        System.exit(3);
    }
}
""",
        fails="public class Main {\n"
        '    public static void main(String[] args) { throw new IllegalStateException("boom"); }\n}\n',
        broken="public class Main {\n    public static void main(String[] args) {\n        int one = two;\n    }\n}\n",
        project={
            "Main.java": "import lib.Sums;\n\npublic class Main {\n"
            "    public static void main(String[] args) { System.out.println(Sums.sum(2, 3)); }\n}\n",
            "lib/Sums.java": "package lib;\n\npublic class Sums {\n"
            "    public static int sum(int a, int b) { return a + b; }\n}\n",
        },
        is_compiled=True,
    ),
    "javascript": Programs(
        everything="""const words = process.argv.slice(2).map((word) => word + "|").join("");
let count = 0;
process.stdin.on("data", (piece) => { count += piece.length; });
process.stdin.on("end", () => {
  process.stdout.write(`${words}\\n${count}\\n`);
  process.stdout.write(Buffer.from([0xff, 0, 13, 10]));
  console.error("oops");
  process.exitCode = 3;
});
""",
        terminated="process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 1e6);\n",
        fails='throw new Error("boom");\n',
        broken="let one = 1;\nlet two = 2;\nlet let = (;\n",
        project={
            "main.js": 'const { sum } = require("./lib/sums");\nconsole.log(sum(2, 3));\n',
            "lib/sums.js": "exports.sum = (a, b) => a + b;\n",
        },
    ),
    "julia": Programs(
        everything="""for word in ARGS
    print(word, "|")
end
print("\\n", length(read(stdin)), "\\n")
write(stdout, UInt8[0xff, 0x00, 0x0d, 0x0a])
println(stderr, "oops")
exit(3)
""",
        fails='error("boom")\n',
        broken="one = 1\ntwo = 2\nif )\n",
        project={"main.jl": 'include("lib/sums.jl")\nprintln(sums(2, 3))\n', "lib/sums.jl": "sums(a, b) = a + b\n"},
    ),
    "lua": Programs(
        everything="""for _, word in ipairs(arg) do io.write(word, "|") end
io.write("\\n", #io.read("a"), "\\n\\255\\0\\r\\n")
io.stderr:write("oops\\n")
os.exit(3)
""",
        fails='error("boom")\n',
        broken="local one = 1\nlocal two = 2\nif then\n",
        project={
            "main.lua": 'local sums = require("lib.sums")\nprint(sums.sum(2, 3))\n',
            "lib/sums.lua": "return { sum = function(a, b) return a + b end }\n",
        },
    ),
    "perl": Programs(
        everything="""print "$_|" for @ARGV;
my $count = 0;
while (my $n = read(STDIN, my $piece, 65536)) { $count += $n }
print "\\n$count\\n\\xff\\x00\\r\\n";
print STDERR "oops\\n";
exit 3;
""",
        terminated="kill 'TERM', $$; sleep 100;\n",
        fails='die "boom";\n',
        broken="my $one = 1;\nmy $two = 2;\nif ( {\n",
        project={
            "main.pl": "use lib 'lib';\nuse Sums;\nprint Sums::sum(2, 3), \"\\n\";\n",
            "lib/Sums.pm": "package Sums;\nsub sum { return $_[0] + $_[1] }\n1;\n",
        },
    ),
    "php": Programs(
        everything="""<?php
foreach (array_slice($argv, 1) as $word) echo $word, "|";
$count = 0;
while (!feof(STDIN)) $count += strlen(fread(STDIN, 65536));
echo "\\n$count\\n\\xff\\x00\\r\\n";
fwrite(STDERR, "oops\\n");
exit(3);
""",
        fails='<?php\nthrow new RuntimeException("boom");\n',
        broken="<?php\n$one = 1;\nif ( {\n",
        project={
            "main.php": "<?php\nrequire __DIR__ . '/lib/sums.php';\necho sum(2, 3), \"\\n\";\n",
            "lib/sums.php": "<?php\nfunction sum($a, $b) { return $a + $b; }\n",
        },
    ),
    "python": Programs(
        everything="""import sys
out = sys.stdout.buffer
out.write("".join(word + "|" for word in sys.argv[1:]).encode())
out.write(b"\\n%d\\n\\xff\\x00\\r\\n" % len(sys.stdin.buffer.read()))
print("oops", file=sys.stderr)
sys.exit(3)
""",
        terminated="import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n",
        fails='raise RuntimeError("boom")\n',
        broken="one = 1\ntwo = 2\nif :\n",
        project={
            "main.py": "from lib.sums import add\n\nprint(add(2, 3))\n",
            "lib/sums.py": "def add(a, b):\n    return a + b\n",
        },
    ),
    "r": Programs(
        everything="""for (word in commandArgs(trailingOnly = TRUE)) cat(word, "|", sep = "")
input <- file("stdin", "rb")
count <- 0
while (length(piece <- readBin(input, "raw", 65536)) > 0) count <- count + length(piece)
cat("\\n", format(count, scientific = FALSE), "\\n", sep = "")
output <- pipe("cat", "wb")
writeBin(as.raw(c(0xff, 0, 13, 10)), output)
close(output)
message("oops")
quit(status = 3)
""",
        fails='stop("boom")\n',
        broken="one <- 1\ntwo <- 2\nif )\n",
        project={
            "main.R": 'source("lib/sums.R")\ncat(sums(2, 3), "\\n", sep = "")\n',
            "lib/sums.R": "sums <- function(a, b) a + b\n",
        },
    ),
    "ruby": Programs(
        everything="""ARGV.each { |word| print word, "|" }
print "\\n", $stdin.binmode.read.bytesize, "\\n"
$stdout.write("\\xff\\x00\\r\\n".b)
warn "oops"
exit 3
""",
        terminated="Signal.trap('TERM', 'SYSTEM_DEFAULT')\nProcess.kill('TERM', $$)\nsleep\n",
        fails='raise "boom"\n',
        broken="one = 1\ntwo = 2\nif )\n",
        project={
            "main.rb": 'require_relative "lib/sums"\nputs sum(2, 3)\n',
            "lib/sums.rb": "def sum(a, b) = a + b\n",
        },
    ),
    "rust": Programs(
        everything="""use std::io::{copy, sink, stdin, stdout, Write};

fn main() {
    for word in std::env::args().skip(1) {
        print!("{word}|");
    }
    let count = copy(&mut stdin(), &mut sink()).unwrap();
    print!("\\n{count}\\n");
    stdout().write_all(b"\\xff\\x00\\r\\n").unwrap();
    eprintln!("oops");
    std::process::exit(3);
}
""",
        fails='fn main() {\n    panic!("boom");\n}\n',
        broken="fn main() {\n    let one = 1;\n    let three = one + two;\n}\n",
        project={
            "Cargo.toml": '[package]\nname = "sums"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/main.rs": 'mod sums;\n\nfn main() {\n    println!("{}", sums::sum(2, 3));\n}\n',
            "src/sums.rs": "pub fn sum(a: i32, b: i32) -> i32 {\n    a + b\n}\n",
        },
        is_compiled=True,
    ),
    "sql": Programs(
        fails="SELECT * FROM boom;\n",
        broken="SELECT 1;\nSELECT 2;\nSELEC 3;\n",
    ),
    "sqlite": Programs(
        fails="SELECT * FROM boom;\n",
        broken="SELECT 1;\nSELECT 2;\nSELEC 3;\n",
    ),
    "tcl": Programs(
        everything="""fconfigure stdout -encoding utf-8
foreach word $argv { puts -nonewline "$word|" }
fconfigure stdin -translation binary
puts "\\n[string length [read stdin]]"
flush stdout
fconfigure stdout -translation binary
puts -nonewline "\\xff\\x00\\r\\n"
puts stderr oops
exit 3
""",
        fails='error "boom"\n',
        project={
            "main.tcl": "source lib/sums.tcl\nputs [sum 2 3]\n",
            "lib/sums.tcl": "proc sum {a b} { expr {$a + $b} }\n",
        },
    ),
    "typescript": Programs(
        everything="""import { readFileSync, writeSync } from "node:fs";

const words: string[] = process.argv.slice(2);
const count: number = readFileSync(0).length;
writeSync(1, words.map((word: string) => word + "|").join("") + `\\n${count}\\n`);
writeSync(1, Buffer.from([0xff, 0, 13, 10]));
console.error("oops");
process.exit(3);
""",
        fails='const reason: string = "boom";\nthrow new Error(reason);\n',
        broken="let one: number = 1;\nlet two: number = 2;\nlet three: = (;\n",
        project={
            "main.ts": 'import { sum } from "./lib/sums";\n\nconsole.log(sum(2, 3));\n',
            "lib/sums.ts": "export function sum(a: number, b: number): number {\n  return a + b;\n}\n",
        },
    ),
}
