"""Projects with crates: built from the registry the first time, and without it afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.packages.registries import folder, layers, needs, unplug  # noqa: F401

import cloche

pytestmark = [pytest.mark.usefixtures("jail", "folder"), pytest.mark.timeout(300)]
MANIFEST = '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n'
FILES = {
    "Cargo.toml": f'{MANIFEST}[dependencies]\nitoa = "1"\n',
    "src/main.rs": 'fn main() { println!("{}", itoa::Buffer::new().format(42)); }\n',
}


@pytest.fixture(autouse=True, scope="module")
def cargo() -> None:
    needs("cargo")


def test_a_program_builds_with_its_crates_and_again_without_the_registry(
    folder: Path,  # noqa: F811
    unplug: Callable[[], None],  # noqa: F811
) -> None:
    first = cloche.run(files=FILES, language="rust", build_timeout=200)
    assert first.stdout == "42\n", first
    unplug()
    again = cloche.run(files=FILES, language="rust", build_timeout=200)
    assert again.stdout == "42\n", again
    assert len(layers(folder)) == 1


def test_a_command_gets_the_lock_file_and_keeps_it(unplug: Callable[[], None]) -> None:  # noqa: F811
    with cloche.Sandbox() as box:
        for name, text in FILES.items():
            box.files.write(name, text)
        done = box.commands.run("cargo run --quiet", timeout=200)
        assert done.stdout == "42\n", done.stderr
        lock = box.files.read_text("Cargo.lock")
        assert 'name = "itoa"' in lock
        assert "checksum" in lock
    unplug()
    with cloche.Sandbox() as box:
        for name, text in {**FILES, "Cargo.lock": lock}.items():
            box.files.write(name, text)
        done = box.commands.run("cargo run --quiet && cargo tree", timeout=200)
        assert done.stdout.startswith("42\n"), done.stderr
        assert "itoa v1" in done.stdout, done.stderr
        assert box.files.read_text("Cargo.lock") == lock


def test_cargo_add_changes_the_manifest() -> None:
    files = {**FILES, "Cargo.toml": MANIFEST}
    done = cloche.run("cargo add itoa && cargo run --quiet", files=files, language="bash", timeout=200)
    assert done.stdout == "42\n", done.stderr
    assert "Adding itoa" in done.stderr


def test_nothing_of_the_project_runs_outside_of_its_sandbox() -> None:
    # The build script would write the environment that it sees; in the broker's sandbox, Cargo sees an empty one.
    script = 'fn main() { println!("cargo::warning=network {}", std::env::var("CLOCHE_NETWORK").unwrap()); }\n'
    done = cloche.run("cargo build", files={**FILES, "build.rs": script}, language="bash", timeout=200)
    assert "network none" in done.stderr
    assert "network policy" not in done.stderr


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(folder: Path) -> None:  # noqa: F811
    lock = cloche.run("cargo generate-lockfile && cat Cargo.lock", files=FILES, language="bash", timeout=100).stdout
    kept = layers(folder)
    wrong = re.sub('checksum = "[0-9a-f]+"', f'checksum = "{"0" * 64}"', lock)
    assert wrong != lock
    result = cloche.run(files={**FILES, "Cargo.lock": wrong}, language="rust", build_timeout=200)
    assert result.error, result
    assert "itoa" in result.error.message
    assert "checksum" in result.error.message or "hash" in result.error.message
    assert layers(folder) == kept


def test_without_the_registry_a_sentence_says_so(folder: Path, unplug: Callable[[], None]) -> None:  # noqa: F811
    unplug()
    result = cloche.run(files=FILES, language="rust", build_timeout=200)
    assert result.error, result
    assert "The registry of crates does not answer" in result.error.message, result
    assert layers(folder) == []


def test_a_crate_that_does_not_exist_is_named() -> None:
    manifest = f'{MANIFEST}[dependencies]\nno-such-crate-of-cloche = "1"\n'
    result = cloche.run(files={**FILES, "Cargo.toml": manifest}, language="rust", build_timeout=200)
    assert result.error
    assert "no-such-crate-of-cloche" in result.error.message


def test_a_crate_from_a_repository_is_refused(folder: Path) -> None:  # noqa: F811
    lock = (
        'version = 4\n[[package]]\nname = "app"\nversion = "0.1.0"\ndependencies = ["far"]\n[[package]]\nname = "far"\n'
        'version = "1.0.0"\nsource = "git+https://example.org/far#0123456789012345678901234567890123456789"\n'
    )
    manifest = f'{MANIFEST}[dependencies]\nfar = {{ git = "https://example.org/far" }}\n'
    files = {**FILES, "Cargo.toml": manifest, "Cargo.lock": lock}
    result = cloche.run(files=files, language="rust", build_timeout=200)
    assert result.error
    assert "far" in result.error.message
    assert layers(folder) == []


def test_the_policy_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "packages.json").write_text('{"deny": ["itoa"]}')
    monkeypatch.setenv("CLOCHE_PACKAGES", str(tmp_path / "packages.json"))
    result = cloche.run(files=FILES, language="rust", build_timeout=200)
    assert result.error, result
    assert "The package itoa is denied" in result.error.message, result
