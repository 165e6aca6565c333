"""Unpacks crates into a folder that Cargo reads as a directory source; the broker runs this in a sandbox.

Arguments: the folder with the files, the folder for the result, and a JSON file that lists {"file", "name", "version",
"hash"}.  Only regular files are taken, each below its crate's own folder.  Standard output is one line of JSON:
{"count"} or {"problem": {"crate", "message"}}.
"""

import json
import os
import sys
import tarfile

_MOST_BYTES = 2 << 30
_MOST_FILES = 200_000


def main() -> None:
    """Unpack what the list names."""
    source, target, listing = sys.argv[1:4]
    with open(listing, encoding="utf-8") as file:
        crates = json.load(file)
    room, left = _MOST_BYTES, _MOST_FILES
    for each in crates:
        try:
            with tarfile.open(f"{source}/{each['file']}", "r:gz") as archive:
                top = f"{each['name']}-{each['version']}"
                os.makedirs(f"{target}/{top}")
                for entry in archive:
                    room, left = room - entry.size, left - 1
                    if room < 0 or left < 0:
                        raise ValueError("the crates are too large when they are unpacked")
                    parts = entry.name.split("/")
                    if not entry.isreg() or parts == [top, ".cargo-checksum.json"]:
                        continue
                    if parts[0] != top or {"", ".", ".."} & set(parts):
                        raise ValueError(f"the path {entry.name[:200]!r} leads out of the crate's folder")
                    write(archive, entry, f"{target}/{entry.name}")
            with open(f"{target}/{top}/.cargo-checksum.json", "w", encoding="utf-8") as file:
                json.dump({"files": {}, "package": each["hash"]}, file)
        except (OSError, ValueError, EOFError, tarfile.TarError) as problem:
            print(json.dumps({"problem": {"crate": each["file"], "message": str(problem)[:500]}}))
            return
    print(json.dumps({"count": len(crates)}))


def write(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: str) -> None:
    """Write one file, which must be new."""
    content = archive.extractfile(entry)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "xb") as file:
        while content is not None and (data := content.read(1 << 20)):
            file.write(data)
    os.chmod(path, 0o755 if entry.mode & 0o100 else 0o644)


if __name__ == "__main__":
    main()
