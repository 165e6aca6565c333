"""Tables of names that tell a language: labels of Markdown fences, file names and endings, programs of shebang lines.

A language without a row is found by the aliases and extensions of its definition; the tables are faster and know more
names.
"""

from __future__ import annotations

LABELS = {
    "bash": "sh shell zsh ksh dash ash shellscript shell-script shell-session shellsession console terminal",
    "c": "h c89 c99 c11 c17 c23 csrc",
    "cpp": "c++ cc cxx hpp hh hxx cplusplus c++11 c++14 c++17 c++20 c++23 c++src",
    "go": "golang",
    "java": "jshell jsh",
    "javascript": "js node nodejs mjs cjs jsx es6 ecmascript deno bun",
    "julia": "jl julia-repl jlcon",
    "lua": "luajit luau",
    "perl": "pl pm perl5",
    "php": "php7 php8 phtml html+php",
    "python": "py python3 python2 py3 pyi ipython ipython3 pycon python-repl python-console jupyter cython gyp sage",
    "r": "rscript rlang rstats splus",
    "ruby": "rb irb jruby rake erb",
    "rust": "rs",
    "sql": "psql postgres postgresql mysql mariadb plpgsql pgsql plsql tsql t-sql duckdb",
    "sqlite": "sqlite3",
    "tcl": "tclsh",
    "typescript": "ts tsx mts cts",
}
FOREIGN_LABELS = """
    ada applescript asm assembly awk bat batch bibtex bnf c# clj clojure cmake cmd cobol coffeescript cs csharp css
    csv cuda d dart diff docker dockerfile dot ebnf elixir elm erlang ex f# fish fortran fsharp gherkin gitignore
    gradle graphql groovy haskell hcl hs html http ini ipynb json json5 jsonc jsonl kotlin kt latex less lisp log
    makefile markdown mathematica matlab md mermaid nginx nix objc objective-c ocaml pascal patch plantuml
    powershell prolog properties proto protobuf ps1 pwsh regex rst sass scala scheme scss solidity svelte svg swift
    terraform tex toml tsv vb vbnet verilog vhdl vim viml vue wasm wat xml yaml yml zig
""".split()  # noqa: SIM905
"""Labels of languages and formats that Cloche does not run.  A definition that has the name as an alias wins."""
SILENT_LABELS = ("", "text", "txt", "plaintext", "plain", "none", "code", "output")

ENDINGS = {
    "bash": "sh bash zsh ksh bats",
    "c": "c",
    "cpp": "cpp cc cxx c++ hpp hh hxx ipp tpp",
    "go": "go",
    "java": "java jsh",
    "javascript": "js mjs cjs jsx",
    "julia": "jl",
    "lua": "lua luau rockspec",
    "perl": "pl pm t",
    "php": "php phtml php7 php8",
    "python": "py pyw pyi",
    "r": "r rscript",
    "ruby": "rb rake gemspec ru",
    "rust": "rs",
    "sql": "sql ddl psql pgsql",
    "sqlite": "sqlite",
    "tcl": "tcl",
    "typescript": "ts tsx mts cts",
}
SILENT_ENDINGS = ("txt", "text", "code", "tmp", "bak")
UNDECIDED = {"h": ("c", "cpp")}
"""Endings that several languages use: the content decides, or else the first."""
FILES = {
    "bash": ".bashrc .bash_profile .bash_aliases .bash_logout .profile .zshrc .zshenv .zprofile .kshrc bashrc zshrc",
    "javascript": "jakefile",
    "perl": "makefile.pl build.pl cpanfile",
    "python": "sconstruct sconscript wscript",
    "r": ".rprofile",
    "ruby": "gemfile rakefile guardfile vagrantfile podfile fastfile capfile brewfile .irbrc .pryrc",
}
FOREIGN_FILES = """
    makefile gnumakefile dockerfile containerfile jenkinsfile procfile cmakelists.txt license readme changelog
    notice authors codeowners .gitignore .gitattributes .dockerignore .editorconfig .env .npmrc requirements.txt
    go.mod go.sum
""".split()  # noqa: SIM905
FOREIGN_ENDINGS = """
    7z adoc asm avi awk bat bin bmp bz2 cfg clj cmake cmd conf cs css csv dart db diff dll doc docx dylib elm erl ex
    exe exs f90 fs gif gradle graphql groovy gz hcl hs htm html ico ini ipynb jar jpeg jpg json json5 jsonl kt kts
    less lock log md mk ml mp3 mp4 nix o odt parquet patch pdf png properties proto ps1 rst s sass scala scss so
    svelte svg swift tar tex tf toml tsv vb vim vue wasm wav webp xls xlsx xml yaml yml zig zip
""".split()  # noqa: SIM905

PROGRAMS = {
    "bash": "bash sh zsh ksh dash ash mksh",
    "c": "tcc",
    "go": "go gorun yaegi",
    "java": "java jshell",
    "javascript": "node nodejs deno bun qjs zx",
    "julia": "julia",
    "lua": "lua luajit texlua",
    "perl": "perl",
    "php": "php",
    "python": "python pypy ipython micropython pipx uv",
    "r": "rscript r littler",
    "ruby": "ruby jruby irb truffleruby",
    "rust": "rust-script cargo cargo-play evcxr",
    "sql": "psql duckdb mysql",
    "sqlite": "sqlite",
    "tcl": "tclsh",
    "typescript": "ts-node tsx esr",
}


def language_in(table: dict[str, str], name: str) -> str:
    """Return the language whose row contains the name or is called so; empty if there is none."""
    return next((language for language, names in table.items() if name in (*names.split(), language)), "")
