"""Links without the compiler's driver, which starts two more programs and lets the linker search huge folders.

The arguments that the driver passes to the linker are determined once, in advance, with the path of every library, and
tried on a program.
"""

from __future__ import annotations

import os

from cloche.languages import preparation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.languages.toolchain import FoundTools

_BEFORE, _AFTER = (
    "link.before",
    "link.after",
)  # files with the linker's arguments before and after a program's own files
_DROPPED = ("-L", "-plugin", "-fuse-ld")
_TIME_S = 60


def linker(found: FoundTools) -> str:
    """Return the linker: gold where it is installed, because it takes half the time."""
    gold = f"{found.folder}/ld.gold"
    return gold if os.path.exists(gold) else f"{found.folder}/ld"


def command(found: FoundTools, program: str, thing: str) -> tuple[str, ...]:
    """Return the command that links an object file; empty if the arguments were not prepared."""
    if found.prepared is None:
        return ()
    if not os.path.exists(os.path.join(preparation.location(), os.path.basename(found.prepared), _AFTER)):
        return ()
    return (linker(found), f"@{found.prepared}/{_BEFORE}", "-o", program, thing, f"@{found.prepared}/{_AFTER}")


def prepare(found: FoundTools, folder: str, hello: str, ending: str) -> None:
    """Determine, try and keep the linker's arguments; if they do not work, the driver links."""
    import subprocess

    if found.mount is not None:
        return  # the toolchain has another path in a sandbox
    before, after = f"{folder}/{_BEFORE}", f"{folder}/{_AFTER}"
    source, thing, program = f"{folder}/hello{ending}", f"{folder}/hello.o", f"{folder}/hello"
    try:
        with open(source, "w") as file:
            file.write(hello)
        _run(found.on_host, "-c", "-pthread", "-o", thing, source)
        for path, words in zip((before, after), _driver_arguments(found, program, thing), strict=True):
            with open(path, "w") as file:
                file.write("\n".join(f'"{word}"' for word in words))
        _run(linker(found), f"@{before}", "-o", program, thing, f"@{after}")
        _run(program)
    except (OSError, ValueError, subprocess.SubprocessError):
        _remove(before, after)
    finally:
        _remove(source, thing, program)


def _driver_arguments(found: FoundTools, program: str, thing: str) -> tuple[list[str], list[str]]:
    """Ask the driver for the linker's arguments before and after an object file."""
    from shlex import split

    gold = ("-fuse-ld=gold",) if linker(found).endswith("gold") else ()
    output = _run(found.on_host, "-###", *gold, "-pthread", "-o", program, thing, "-lm").splitlines()
    commands = [split(line) for line in output if line.startswith((" ", '"'))]
    words = next(words[1:] for words in commands if program in words and thing in words)
    place = words.index(program)
    del words[place - 1 : place + 1]
    while "-plugin" in words:  # the plugin for link-time optimisation
        del words[words.index("-plugin") + 1], words[words.index("-plugin")]
    kept = [_with_path(found, word) for word in words if not word.startswith(_DROPPED)]
    middle = kept.index(thing)
    return ["-nostdlib", *kept[:middle]], kept[middle + 1 :]


def _with_path(found: FoundTools, word: str) -> str:
    """Replace a library option by the library's path."""
    if not word.startswith("-l"):
        return word
    for ending in (
        (".so.1", ".a") if word == "-lgcc_s" else (".so", ".a")
    ):  # libgcc_s.so is a script that names the library
        path = _run(found.on_host, f"-print-file-name=lib{word[2:]}{ending}").strip()
        if os.path.isabs(path):
            return os.path.normpath(path)
    raise ValueError(f"The library of {word} was not found")


def _run(*words: str) -> str:
    import subprocess

    done = subprocess.run(
        words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_TIME_S
    )
    return done.stdout.decode()


def _remove(*paths: str) -> None:
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
