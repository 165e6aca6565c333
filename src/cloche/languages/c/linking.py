"""Linking without the compiler's driver: it starts two programs more, and has the linker read folders of thousands.

What the driver would tell the linker is asked once, ahead, with every library named by its path, and is tried on a
program.
"""

from __future__ import annotations

import os

from cloche.languages import preparation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.languages.toolchain import FoundTools

_BEFORE, _AFTER = "link.before", "link.after"  # the linker's arguments around a program's own files
_DROPPED = ("-L", "-plugin", "-fuse-ld")
_TIME_S = 60


def chosen(found: FoundTools) -> str:
    """The linker: gold where there is one, which takes half the time."""
    gold = f"{found.folder}/ld.gold"
    return gold if os.path.exists(gold) else f"{found.folder}/ld"


def command(found: FoundTools, program: str, thing: str) -> tuple[str, ...]:
    """How to make a program of an object file; empty where that was not prepared."""
    if found.prepared is None:
        return ()
    if not os.path.exists(os.path.join(preparation.location(), os.path.basename(found.prepared), _AFTER)):
        return ()
    return (chosen(found), f"@{found.prepared}/{_BEFORE}", "-o", program, thing, f"@{found.prepared}/{_AFTER}")


def prepare(found: FoundTools, folder: str, hello: str, ending: str) -> None:
    """Find out, try, and keep it; where it does not work, nothing is kept, and the driver links."""
    import subprocess

    if found.mount is not None:
        return  # what it names has another place in a sandbox
    before, after = f"{folder}/{_BEFORE}", f"{folder}/{_AFTER}"
    source, thing, program = f"{folder}/hello{ending}", f"{folder}/hello.o", f"{folder}/hello"
    try:
        with open(source, "w") as file:
            file.write(hello)
        _run(found.on_host, "-c", "-pthread", "-o", thing, source)
        for path, words in zip((before, after), _asked(found, program, thing), strict=True):
            with open(path, "w") as file:
                file.write("\n".join(f'"{word}"' for word in words))
        _run(chosen(found), f"@{before}", "-o", program, thing, f"@{after}")
        _run(program)
    except (OSError, ValueError, subprocess.SubprocessError):
        _remove(before, after)
    finally:
        _remove(source, thing, program)


def _asked(found: FoundTools, program: str, thing: str) -> tuple[list[str], list[str]]:
    """What the driver would say before an object file, and after."""
    from shlex import split

    gold = ("-fuse-ld=gold",) if chosen(found).endswith("gold") else ()
    told = _run(found.on_host, "-###", *gold, "-pthread", "-o", program, thing, "-lm").splitlines()
    commands = [split(line) for line in told if line.startswith((" ", '"'))]
    words = next(words[1:] for words in commands if program in words and thing in words)
    place = words.index(program)
    del words[place - 1 : place + 1]
    while "-plugin" in words:  # for optimising while linking
        del words[words.index("-plugin") + 1], words[words.index("-plugin")]
    kept = [_named(found, word) for word in words if not word.startswith(_DROPPED)]
    middle = kept.index(thing)
    return ["-nostdlib", *kept[:middle]], kept[middle + 1 :]


def _named(found: FoundTools, word: str) -> str:
    """A library by its path."""
    if not word.startswith("-l"):
        return word
    for ending in (".so.1", ".a") if word == "-lgcc_s" else (".so", ".a"):  # libgcc_s.so is a script that names it
        path = _run(found.on_host, f"-print-file-name=lib{word[2:]}{ending}").strip()
        if os.path.isabs(path):
            return os.path.normpath(path)
    raise ValueError(f"{word} is nowhere")


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
