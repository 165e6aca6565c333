"""Recognises pictures by their content: PNG, JPEG, GIF and WebP that a model's decoder will accept.

Clients put a picture into the model's conversation, and some services refuse the whole conversation from then on if one
picture does not decode.  A name or a declared type is not enough, so this module reads the structure to the end.
The pixels of PNG and GIF are checked, too, within bounds; those of JPEG and WebP would take a decoder.  The data come
from sandboxes and may be hostile.
"""

from __future__ import annotations

import zlib
from struct import unpack_from

from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SIDE = 8000  # pixels; services for models refuse larger pictures
MAX_PIXELS_BYTES = 64 << 20  # of an unpacked PNG, which takes about a tenth of a second
_PIECE = 1 << 18
_PNG = b"\x89PNG\r\n\x1a\n"
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}  # by PNG's type of colour
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_FILTERS = frozenset(range(5))
_JPEG_FRAMES = (0xC0, 0xC1, 0xC2)  # baseline, extended and progressive; decoders lack the others


class Picture(Plain):
    """A complete picture."""

    mime: str
    width: int
    height: int


class _Broken(Exception):
    """The data are no picture, or not all of one."""


def picture_of(data: bytes) -> Picture | None:
    """Return the kind and the size of a picture; None if the data are not a complete one that models can look at."""
    try:
        found = _read(data)
    except (_Broken, IndexError, ValueError, zlib.error):
        return None
    return found if 0 < found.width <= MAX_SIDE and 0 < found.height <= MAX_SIDE else None


def claimed_kind(data: bytes) -> str:
    """Return the MIME type that the first bytes of a picture announce; empty if they announce none."""
    if data.startswith(_PNG):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""


def _read(data: bytes) -> Picture:
    kind = claimed_kind(data)
    if not kind:
        raise _Broken
    readers = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
    width, height = readers[kind](data)
    return Picture(kind, width, height)


def _numbers(form: str, data: bytes, at: int) -> tuple[int, ...]:
    try:
        return unpack_from(form, data, at)
    except Exception:  # the data end before the numbers do
        raise _Broken from None


# --- PNG


def _png(data: bytes) -> tuple[int, int]:
    header, has_palette, pixels, has_end = b"", False, [], False
    for kind, content in _png_chunks(data):
        if not header and kind != b"IHDR":
            raise _Broken
        if kind == b"IHDR":
            if header or len(content) != 13:
                raise _Broken
            header = content
        elif kind == b"PLTE":
            has_palette = 3 <= len(content) <= 768 and len(content) % 3 == 0
        elif kind == b"IDAT":
            pixels.append(content)
        elif kind == b"IEND":
            has_end = True
        elif not kind[0] & 0x20:  # a part without which the picture cannot be shown
            raise _Broken
    if not header or not pixels or not has_end:
        raise _Broken
    width, height, depth, colour, packing, filtering, interlace = _numbers(">IIBBBBB", header, 0)
    if depth not in _DEPTHS.get(colour, ()) or packing or filtering or interlace > 1:
        raise _Broken
    if not 0 < width <= MAX_SIDE or not 0 < height <= MAX_SIDE or (colour == 3 and not has_palette):
        raise _Broken
    _check_pixels(pixels, list(_rows(width, height, depth * _CHANNELS[colour], bool(interlace))))
    return width, height


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_PNG)
    while at < len(data):
        (length,) = _numbers(">I", data, at)
        end = at + 8 + length
        (checksum,) = _numbers(">I", data, end)
        kind = data[at + 4 : at + 8]
        if zlib.crc32(data[at + 4 : end]) != checksum:
            raise _Broken
        yield kind, data[at + 8 : end]
        if kind == b"IEND":
            return  # decoders ignore the rest
        at = end + 4


def _rows(width: int, height: int, bits: int, interlaced: bool) -> Iterator[tuple[int, int]]:
    """Return the bytes of a row and the number of such rows, for each pass."""
    passes = _ADAM7 if interlaced else ((0, 0, 1, 1),)
    for left, top, across, down in passes:
        columns, rows = -((left - width) // across), -((top - height) // down)
        if columns > 0 and rows > 0:
            yield 1 + (columns * bits + 7) // 8, rows


def _check_pixels(parts: list[bytes], passes: list[tuple[int, int]]) -> None:
    """Unpack the pixels: there must be enough of them, and each row must begin with a known filter."""
    needed = sum(stride * rows for stride, rows in passes)
    if needed > MAX_PIXELS_BYTES:
        raise _Broken
    unpacking, at = zlib.decompressobj(), 0
    for part in parts:
        waiting = part
        while waiting and not unpacking.eof:
            unpacked = unpacking.decompress(waiting, _PIECE)
            waiting = unpacking.unconsumed_tail
            _check_filters(unpacked, at, passes)
            at += len(unpacked)
            if at > needed + _PIECE:
                raise _Broken  # a bomb: more than the picture has room for
    if at < needed or not unpacking.eof:
        raise _Broken


def _check_filters(unpacked: bytes, at: int, passes: list[tuple[int, int]]) -> None:
    begin = 0
    for stride, rows in passes:
        end = begin + stride * rows
        if begin < at + len(unpacked) and at < end:
            first = begin if at <= begin else at + (begin - at) % stride
            if not _FILTERS.issuperset(unpacked[first - at : end - at : stride]):
                raise _Broken
        begin = end


# --- JPEG


def _jpeg(data: bytes) -> tuple[int, int]:
    at, frame, tables, scans = 2, _JpegFrame(), set[tuple[str, int]](), 0
    is_progressive = False
    while True:
        at, marker = _jpeg_marker(data, at)
        if marker == 0xD9:
            break
        if marker == 0x01 or 0xD0 <= marker <= 0xD8:
            raise _Broken
        (length,) = _numbers(">H", data, at)
        end = at + length
        if length < 2 or end > len(data):
            raise _Broken
        segment, at = data[at + 2 : end], end
        if marker in _JPEG_FRAMES:
            frame.read(segment)
            is_progressive = marker == _JPEG_FRAMES[-1]
        elif marker == 0xDB:
            tables.update(_jpeg_quantization(segment))
        elif marker == 0xC4:
            tables.update(_jpeg_huffman(segment))
        elif marker == 0xDA:
            frame.check_scan(segment, tables, is_progressive=is_progressive)
            at = _jpeg_scan_end(data, end)
            scans += 1
        elif 0xC0 <= marker <= 0xCF and marker != 0xCC:
            raise _Broken
    if not scans:
        raise _Broken
    return frame.size


def _jpeg_marker(data: bytes, at: int) -> tuple[int, int]:
    if data[at] != 0xFF:
        raise _Broken
    while data[at] == 0xFF:  # any number of fill bytes
        at += 1
    return at + 1, data[at]


class _JpegFrame:
    """The header of a JPEG: its size, and the tables that its components use."""

    def __init__(self) -> None:
        self.size = (0, 0)
        self._components: dict[int, int] = {}  # the number of the quantization table, by component

    def read(self, segment: bytes) -> None:
        precision, height, width, count = _numbers(">BHHB", segment, 0)
        if self._components or precision != 8 or count not in (1, 3, 4) or len(segment) != 6 + 3 * count:
            raise _Broken
        for at in range(6, len(segment), 3):
            identity, sampling, table = segment[at : at + 3]
            if not 1 <= sampling >> 4 <= 4 or not 1 <= sampling & 15 <= 4:
                raise _Broken
            self._components[identity] = table
        if len(self._components) != count or not width or not height:
            raise _Broken
        self.size = width, height

    def check_scan(self, segment: bytes, tables: set[tuple[str, int]], *, is_progressive: bool) -> None:
        count = segment[0]
        if not 1 <= count <= 4 or len(segment) != 4 + 2 * count:
            raise _Broken
        first, last, bits = segment[-3:]
        if first > last or last > 63 or bits & 15 > 13:
            raise _Broken
        for at in range(1, 1 + 2 * count, 2):
            component, used = segment[at : at + 2]
            needed = {("quantization", self._components.get(component, -1))}
            if not is_progressive or not first:
                needed.add(("dc", used >> 4))
            if not is_progressive or last:
                needed.add(("ac", used & 15))
            if is_progressive and not first and bits >> 4:
                needed.discard(("dc", used >> 4))  # a later scan of the same bits has no codes
            if not needed <= tables:
                raise _Broken


def _jpeg_quantization(segment: bytes) -> Iterator[tuple[str, int]]:
    at = 0
    while at < len(segment):
        wide, number = segment[at] >> 4, segment[at] & 15
        at += 1 + 64 * (1 + wide)
        if wide > 1 or number > 3 or at > len(segment):
            raise _Broken
        yield "quantization", number


def _jpeg_huffman(segment: bytes) -> Iterator[tuple[str, int]]:
    at = 0
    while at < len(segment):
        kind, number, counts = segment[at] >> 4, segment[at] & 15, segment[at + 1 : at + 17]
        room = 1
        for count in counts:
            room = 2 * room - count  # codes of the next length that are still free
            if room < 0:
                raise _Broken
        at += 17 + sum(counts)
        if kind > 1 or number > 3 or sum(counts) > 256 or at > len(segment):
            raise _Broken
        yield ("ac" if kind else "dc"), number


def _jpeg_scan_end(data: bytes, begin: int) -> int:
    """Return where the marker after a scan's data begins."""
    at = begin
    while True:
        at = data.find(b"\xff", at)
        if at < 0 or at + 1 >= len(data):
            raise _Broken
        following = data[at + 1]
        if following == 0xFF:
            at += 1
        elif following == 0 or 0xD0 <= following <= 0xD7:
            at += 2
        elif at == begin:
            raise _Broken  # a scan without data
        else:
            return at


# --- GIF


def _gif(data: bytes) -> tuple[int, int]:
    width, height, flags = _numbers("<HHB", data, 6)
    at, frames = 13 + _gif_colours(flags), 0
    while (introducer := data[at]) != 0x3B:
        if introducer == 0x21:
            at = _gif_blocks(data, at + 2)
        elif introducer == 0x2C:
            left, top, across, down, flags = _numbers("<HHHHB", data, at + 1)
            at += 10 + _gif_colours(flags)
            is_inside = left + across <= width and top + down <= height
            if not across or not down or not is_inside or not 2 <= data[at] <= 8 or not data[at + 1]:
                raise _Broken
            begin, at = at, _gif_blocks(data, at + 1)
            if not frames:  # models see the first one
                _check_gif_pixels(data[begin], _gif_joined(data, begin + 1), across * down)
            frames += 1
        else:
            raise _Broken
    if not frames:
        raise _Broken
    return width, height


def _gif_colours(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _gif_blocks(data: bytes, at: int) -> int:
    while data[at]:
        at += 1 + data[at]
    return at + 1


def _gif_joined(data: bytes, at: int) -> bytes:
    parts = []
    while data[at]:
        parts.append(data[at + 1 : at + 1 + data[at]])
        at += 1 + data[at]
    return b"".join(parts)


def _check_gif_pixels(root_bits: int, packed: bytes, needed: int) -> None:
    """Follow the codes of a frame, without its colours: each must be known, and there must be enough pixels."""
    clear, end = 1 << root_bits, (1 << root_bits) + 1
    lengths = [1] * (end + 1)  # of the pixels that each code stands for
    width, before, got, bits, count = root_bits + 1, 0, 0, 0, 0
    for byte in packed:
        bits |= byte << count
        count += 8
        while count >= width:
            code = bits & ((1 << width) - 1)
            bits >>= width
            count -= width
            if code == clear:
                del lengths[end + 1 :]
                width, before = root_bits + 1, 0
                continue
            if before and len(lengths) < 4096:
                lengths.append(before + 1)
                if len(lengths) == 1 << width and width < 12:
                    width += 1
            if code == end or code >= len(lengths):
                raise _Broken
            before = lengths[code]
            got += before
            if got >= needed:
                return
    raise _Broken


# --- WebP


def _webp(data: bytes) -> tuple[int, int]:
    (length,) = _numbers("<I", data, 4)
    end = 8 + length
    if end > len(data) or length < 4:
        raise _Broken
    chunks = list(_webp_chunks(data, 12, end))
    if not chunks:
        raise _Broken
    kind, content = chunks[0]
    if kind != b"VP8X":
        return _webp_frame([chunks[0]])
    if len(content) < 10:
        raise _Broken
    width, height = 1 + int.from_bytes(content[4:7], "little"), 1 + int.from_bytes(content[7:10], "little")
    if not content[0] & 2:
        if _webp_frame(chunks) != (width, height):
            raise _Broken
        return width, height
    frames = [frame for name, frame in chunks if name == b"ANMF"]
    if not frames or b"ANIM" not in [name for name, _ in chunks]:
        raise _Broken
    for frame in frames:
        across, down = 1 + int.from_bytes(frame[6:9], "little"), 1 + int.from_bytes(frame[9:12], "little")
        if _webp_frame(list(_webp_chunks(frame, 16, len(frame)))) != (across, down):
            raise _Broken
    return width, height


def _webp_chunks(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    while at < end:
        (length,) = _numbers("<I", data, at + 4)
        if at + 8 + length > end:
            raise _Broken
        yield data[at : at + 4], data[at + 8 : at + 8 + length]
        at += 8 + length + length % 2


def _webp_frame(chunks: list[tuple[bytes, bytes]]) -> tuple[int, int]:
    for kind, content in chunks:
        if kind == b"VP8 ":
            tag = int.from_bytes(content[:3], "little")
            is_key_frame = not tag & 1 and content[3:6] == b"\x9d\x01\x2a"
            if not is_key_frame or 10 + (tag >> 5) > len(content):
                raise _Broken
            width, height = _numbers("<HH", content, 6)
            return width & 0x3FFF, height & 0x3FFF
        if kind == b"VP8L":
            (bits,) = _numbers("<I", content, 1)
            if content[0] != 0x2F or bits >> 29 or len(content) < 6:
                raise _Broken
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    raise _Broken
