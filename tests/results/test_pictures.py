"""Pictures are recognised by their content, to the end: those that Pillow writes, and none that is cut or broken."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64decode

import pytest

import cloche
from cloche.results.pictures import MAX_SIDE, claimed_kind, picture_of

WIDTH, HEIGHT = 61, 37

# Runs in a sandbox, whose environment has Pillow; the server has no library for pictures.
MAKE = f"""
import base64, io, json, random
from PIL import Image
random.seed(1)
base = Image.frombytes("RGB", ({WIDTH}, {HEIGHT}), random.randbytes({WIDTH * HEIGHT * 3}))
others = [base.rotate(angle) for angle in (30, 60)]
forms = {{
    **{{f"png {{mode}}": ("PNG", base.convert(mode), {{}}) for mode in ("1", "L", "LA", "P", "RGB", "RGBA")}},
    **{{f"jpeg {{mode}}": ("JPEG", base.convert(mode), {{}}) for mode in ("L", "RGB", "CMYK")}},
    "jpeg progressive": ("JPEG", base, {{"progressive": True}}),
    "jpeg restarts": ("JPEG", base, {{"restart_marker_rows": 1}}),
    "gif": ("GIF", base.convert("P"), {{}}),
    "gif two colours": ("GIF", base.convert("1"), {{}}),
    "gif animated": ("GIF", base.convert("P"), {{"save_all": True, "append_images": others}}),
    "webp": ("WEBP", base, {{}}),
    "webp lossless": ("WEBP", base, {{"lossless": True}}),
    "webp alpha": ("WEBP", base.convert("RGBA").rotate(20), {{}}),
    "webp animated": ("WEBP", base, {{"save_all": True, "append_images": others}}),
}}
made = {{}}
for name, (form, picture, options) in forms.items():
    stream = io.BytesIO()
    picture.save(stream, form, **options)
    made[name] = base64.b64encode(stream.getvalue()).decode()
print(json.dumps(made))
"""


@pytest.fixture(scope="module")
def pictures() -> dict[str, bytes]:
    result = cloche.run(MAKE)
    assert result.error is None, result.stderr
    return {name: b64decode(data) for name, data in json.loads(result.stdout).items()}


def png(*chunks: tuple[bytes, bytes]) -> bytes:
    parts = [
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def header(width: int, height: int, depth: int = 8, colour: int = 0, interlace: int = 0) -> tuple[bytes, bytes]:
    return b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)


def pixels(data: bytes) -> tuple[bytes, bytes]:
    return b"IDAT", zlib.compress(data)


END = (b"IEND", b"")


@pytest.mark.usefixtures("jail")
def test_whole_pictures_are_recognised(pictures: dict[str, bytes]) -> None:
    for name, data in pictures.items():
        found = picture_of(data)
        assert found is not None, name
        assert (found.mime, found.width, found.height) == (f"image/{name.split()[0]}", WIDTH, HEIGHT), name


@pytest.mark.usefixtures("jail")
def test_no_part_of_a_picture_is_one(pictures: dict[str, bytes]) -> None:
    for name, data in pictures.items():
        ends = {*range(0, len(data), max(1, len(data) // 100)), len(data) - 1}
        if name.startswith("webp"):
            ends.discard(len(data) - 1)  # the last byte may be padding
        for end in ends:
            assert picture_of(data[:end]) is None, (name, end, len(data))


@pytest.mark.usefixtures("jail")
def test_no_change_of_a_byte_is_a_fault(pictures: dict[str, bytes]) -> None:
    for name, data in pictures.items():
        for at in range(0, len(data), max(1, len(data) // 200)):
            changed = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
            found = picture_of(changed)  # raises nothing
            assert found is None or not name.startswith("png"), (name, at)


def test_a_picture_needs_all_its_pixels() -> None:
    rows = (b"\0" + bytes(4)) * 3
    assert picture_of(png(header(4, 3), pixels(rows), END)) is not None
    for name, data in {
        "too few": png(header(4, 3), pixels(rows[:-1]), END),
        "unknown filter": png(header(4, 3), pixels(b"\x05" + rows[1:]), END),
        "a bomb": png(header(4, 3), pixels(bytes(10 << 20)), END),
        "no end": png(header(4, 3), pixels(rows)),
        "no pixels": png(header(4, 3), END),
        "no palette": png(header(4, 3, colour=3), pixels(rows), END),
        "impossible colours": png(header(4, 3, depth=3), pixels(rows), END),
        "no width": png(header(0, 3), pixels(rows), END),
        "too wide": png(header(MAX_SIDE + 1, 1), pixels(b"\0" + bytes(MAX_SIDE + 1)), END),
        "too much to unpack": png(header(MAX_SIDE, MAX_SIDE, 16, 6), pixels(bytes(1000)), END),
        "a part that nobody knows": png(header(4, 3), (b"ABCD", b""), pixels(rows), END),
        "not packed": png(header(4, 3), (b"IDAT", b"no zlib"), END),
    }.items():
        assert claimed_kind(data) == "image/png"
        assert picture_of(data) is None, name


def test_interlaced_rows_are_counted_by_pass() -> None:
    width, height = 5, 3
    rows = [(1, 1), (1, 1), (0, 1), (1, 1), (3, 1), (2, 2), (5, 1)]  # columns and rows of each pass
    data = b"".join((b"\0" + bytes(columns)) * count for columns, count in rows if columns)
    assert picture_of(png(header(width, height, interlace=1), pixels(data), END)) is not None
    assert picture_of(png(header(width, height, interlace=1), pixels(data[:-1]), END)) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text",
        b"GIF89a is the name of a format",
        b"\x89PNG\r\n\x1a\n",
        b"\x89PNG\r\n\x1a\n" + bytes(20),
        b"\xff\xd8\xff",
        b"\xff\xd8\xff\xd9",
        b"RIFF\x04\0\0\0WEBP",
        b"GIF89a" + bytes(7) + b";",
    ],
)
def test_a_beginning_is_no_picture(data: bytes) -> None:
    assert picture_of(data) is None
