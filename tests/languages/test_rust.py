"""Rust: snippets, files, Cargo's projects, errors of the compiler and of programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche.languages.rust import definition as rust
from cloche.languages.rust import snippet
from cloche.languages.rust.snippet import wrapped

pytestmark = pytest.mark.usefixtures("jail")


@pytest.fixture(autouse=True, scope="module")
def compiler() -> None:
    needs("rust")


SNIPPET = r"""#![allow(dead_code)]
use std::collections::BTreeMap;
#[derive(Debug)]
struct Point { x: i32 }
impl Point { fn twice(&self) -> i32 { self.x * 2 } }
let mut counts = BTreeMap::new();
for word in "a b a".split(' ') {
    *counts.entry(word).or_insert(0) += 1;
}
println!("{:?} {}", counts, Point { x: 21 }.twice());
let number: i32 = "x12".trim_start_matches('x').parse()?;
println!("{number}");
number + 1
"""


def test_statements_become_a_program():
    result = cloche.run(SNIPPET, language="rust")
    assert result.stdout == '{"a": 2, "b": 1} 42\n12\n', result.stderr
    assert all(each.line == 13 for each in result.diagnostics)  # the value that nobody uses


def test_modules_of_a_snippet_see_what_is_around_them():
    code = """/* a /* nested */ comment */
const N: i32 = if true { 3 } else { 4 };
fn base() -> i32 { N }
mod inner { pub fn twice() -> i32 { super::base() + crate::base() } }
use self::inner::twice;
println!("{}", twice());
"""
    result = cloche.run(code, language="rust")
    assert result.stdout == "6\n", result.stderr


def test_items_may_come_after_what_uses_them():
    code = 'fn first() -> i32 { second() }\nprint!("{}", first());\nfn second() -> i32 { 2 }\n'
    assert cloche.run(code, language="rust").stdout == "2"


def test_errors_are_where_their_author_made_them():
    result = cloche.run('let x: i32 = "a";\nlet y = z;\n', language="rust")
    assert result.error.kind == "syntax"
    places = {each.code: (each.file, each.line, each.column, each.severity) for each in result.diagnostics}
    assert places["E0308"] == ("main.rs", 1, 14, "error")
    assert places["E0425"] == ("main.rs", 2, 9, "error")
    assert "error[E0425]: cannot find value `z`" in result.stderr


@pytest.mark.parametrize(
    "code",
    ["fn main() {}", "pub fn twice(x: i32) -> i32 { x * 2 }\n", "use std::fmt;\n#[test]\nfn t() {}\n", "// fn\n"],
)
def test_what_is_whole_or_has_nothing_to_run_is_left_alone(code):
    assert wrapped(code) is None


def test_the_head_of_a_function_ends_where_the_next_one_begins():
    """Otherwise a source of nothing but heads would be read once for each, and hold the server for a minute."""
    found = snippet._FUNCTION.search("fn a fn b fn c(x: fn(i32) -> i32) where T: Fn() {")
    assert found is not None
    assert found[0].startswith("fn c(")
    assert found[0].endswith("{")
    assert wrapped("fn a " * 50_000 + ";let x=1;") is not None


def test_tests_alone_are_run():
    result = cloche.run("#[test]\nfn adds() { assert_eq!(1 + 1, 3); }\n", language="rust")
    assert "test adds ... FAILED" in result.stdout
    assert result.exit_code == 101


def test_failures_of_programs_are_reported():
    with cloche.Sandbox() as box:

        def run(body: str) -> cloche.Result:
            return box.run_program(f"fn main() {body}", language="rust")

        panicked = run('{ let v: Vec<i32> = vec![]; println!("{}", v[std::env::args().count()]); }')
        assert (panicked.error.kind, panicked.error.name, panicked.exit_code) == ("runtime", "panic", 101)
        assert panicked.error.message.startswith("index out of bounds: the len is 0 but the index is 1 (main.rs:1:")
        returned = run('-> Result<(), String> { Err("no".into()) }')
        assert (returned.error.kind, returned.error.message, returned.exit_code) == ("runtime", '"no"', 1)
        overflown = run('{ println!("{}", std::env::args().count() as u8 + 255); }')
        assert "attempt to add with overflow" in overflown.error.message


CARGO = {
    "Cargo.toml": '[package]\nname = "an-app"\nversion = "1.2.3"\nedition = "2021"\n'
    '[features]\ndefault = ["fast"]\nfast = []\n',
    "src/main.rs": "mod parts;\n"
    'fn main() { println!("{} {} {}", parts::one(), an_app::two(), env!("CARGO_PKG_VERSION")); }\n',
    "src/parts.rs": "pub fn one() -> i32 { 1 }\n",
    "src/lib.rs": 'pub fn two() -> i32 { if cfg!(feature = "fast") { 2 } else { 0 } }\n',
}


def test_a_package_is_built_as_its_manifest_says():
    result = cloche.run(files=CARGO, language="rust")
    assert result.stdout == "1 2 1.2.3\n", result.stderr


def test_crates_that_are_among_the_files_are_built():
    manifest = CARGO["Cargo.toml"] + '[dependencies]\nhelper = "0.1"\n'
    files = {**CARGO, "Cargo.toml": manifest, "src/parts.rs": "pub fn one() -> i32 { helper::three() }\n"}
    vendored = {
        "vendor/helper/Cargo.toml": '[package]\nname = "helper"\nversion = "0.1.0"\nedition = "2021"\n',
        "vendor/helper/src/lib.rs": "pub fn three() -> i32 { 3 }\n",
        "vendor/helper/.cargo-checksum.json": '{"files": {}}',
    }
    result = cloche.run(files={**files, **vendored}, language="rust")
    if result.error is not None and result.error.kind == "unavailable":
        pytest.skip("Cargo is not installed on this host")
    assert result.stdout == "3 2 1.2.3\n", result.stderr


def test_rustups_default_toolchain_is_the_one_that_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("RUSTUP_HOME", str(tmp_path))
    monkeypatch.delenv("RUSTUP_TOOLCHAIN", raising=False)
    for name in ("1.70.0-x", "nightly-x", "stable-x"):
        (tmp_path / "toolchains" / name / "bin").mkdir(parents=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "rustup").touch()
    (programs / "rustc").symlink_to("rustup")
    assert Path(rust.home(str(programs / "rustc"))).name == "stable-x"
    (tmp_path / "settings.toml").write_text('default_toolchain = "1.70.0-x"\n')
    assert Path(rust.home(str(programs / "rustc"))).name == "1.70.0-x"
    monkeypatch.setenv("RUSTUP_TOOLCHAIN", "nightly")
    assert Path(rust.home(str(programs / "rustc"))).name == "nightly-x"


def test_a_bomb_of_types_ends_at_a_limit():
    types = "".join(f"type T{n} = (T{n - 1}, T{n - 1}, T{n - 1}, T{n - 1});\n" for n in range(1, 20))
    code = f'type T0 = u8;\n{types}fn main() {{ println!("{{:?}}", std::any::type_name::<T19>().len()); }}'
    result = cloche.run(code, language="rust", memory="256M", build_timeout=10, timeout=10)
    assert result.error.kind in ("memory", "timeout")


def test_tests_of_a_package_are_run():
    files = {
        "Cargo.toml": '[package]\nname = "leap"\nversion = "1.0.0"\nedition = "2021"\n',
        "src/lib.rs": "pub fn one() -> i32 { 1 }\nmod tests { #[test] fn inside() { assert_eq!(super::one(), 1); } }\n",
        "tests/more.rs": "#[test]\nfn outside() { assert_eq!(leap::one(), 2); }\n",
    }
    assert "test tests::inside ... ok" in cloche.run(files=files, entry="src/lib.rs").stdout
    result = cloche.run(files=files, entry="tests/more.rs")
    assert "tests/more.rs:2:16:\nassertion `left == right` failed" in result.stdout
    assert result.exit_code == 101
