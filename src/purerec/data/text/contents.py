"""The text of a file as UTF-8: opened, decompressed and decoded, with lines that end in LF or CRLF.

Errors about the file itself (its path, kind, compression or encoding) are raised here.
"""

from __future__ import annotations

import codecs
import gzip
import io
import mmap
import os
import re
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from purerec.data.memory import available_mb
from purerec.errors import ReadError

SAMPLE_BYTES = 1 << 16
_LONGEST_SAMPLE = 1 << 24
_UNPACKED_AT_ONCE = 1 << 24
_BLANK_LINES = re.compile(rb"(?:[ \t\r\x0b\x0c]|\xef\xbb\xbf)*\n")
BLANK = " \t\r\n\x0b\x0c\ufeff"
"""Characters of lines that look blank: ASCII whitespace, and the byte order mark that some editors add"""
_LONGEST_SHOWN = 400
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass(frozen=True)
class Content:
    """The content of a text file."""

    raw: bytes | mmap.mmap
    """UTF-8; memory-mapped if the file already is UTF-8 and need not be copied"""
    first_line: int = 1
    """The number of its first line; more than 1 for a later part of a file"""

    def skip_blank_lines(self, start: int = 0) -> int:
        """Start of the first line from `start` on that is not blank, or the end."""
        while found := _BLANK_LINES.match(self.raw, start):
            start = found.end()
        return start

    def after_line(self, start: int) -> int:
        """Start of the next line."""
        end = self.raw.find(b"\n", start)
        return len(self.raw) if end < 0 else end + 1

    def line_number(self, at: int) -> int:
        """Number of the line that starts here, counted from 1."""
        return bytes(self.raw[:at]).count(b"\n") + self.first_line

    def sample(self, where: str) -> str:
        """The first lines that are not blank; only two if they are very long."""
        start = self.skip_blank_lines()
        two_lines = min(self.after_line(self.after_line(start)), start + _LONGEST_SAMPLE)
        cut = self.raw[start : max(start + SAMPLE_BYTES, two_lines)]
        is_all = start + len(cut) == len(self.raw)
        try:
            # Leave out a character cut in half at the end.
            text = codecs.getincrementaldecoder("utf-8")().decode(cut, final=is_all)
        except UnicodeDecodeError as error:
            raise_not_utf8(cut, error, where, first_line=self.line_number(start))
        if not is_all:
            text = text[: text.rfind("\n") + 1] or text
        return text.removeprefix("\ufeff")


def shown(path: str | os.PathLike[str]) -> str:
    """A path as one printable line, whatever its bytes; a long one is shortened in the middle."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    text = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN // 2]}...{text[-_LONGEST_SHOWN // 2 :]}"


def is_utf8(path: str) -> bool:
    """Return whether polars can open a path: it needs UTF-8."""
    return not any("\ud800" <= letter <= "\udfff" for letter in path)


def content_of(path: Path, encoding: str, *, beginning: bool = False) -> Content:
    """The text of a regular file, decompressed if it is a gzip file (with `beginning`, only the start of it)."""
    where = shown(path)
    codec = text_codec(encoding, where)
    check_file(path)
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            file.seek(0)
            raw = _unpacked(file, where, beginning=beginning) if magic[:2] == b"\x1f\x8b" else _mapped(file)
    except (OSError, ValueError) as error:
        if isinstance(error, ReadError):
            raise
        raise ReadError(f"{where}: cannot be read ({reason(error)}); check the file and its permissions") from None
    if not len(raw):
        raise ReadError(f"{where}: the file is empty; give a file with one interaction per line")
    refuse_binary(raw, codec, where)
    if codec != "utf-8":
        raw = _recoded(bytes(raw), codec, where)
    if raw.find(b"\n") < 0 and raw.find(b"\r") >= 0:
        raw = bytes(raw).replace(b"\r", b"\n")  # line endings of old Macs
    return Content(raw)


def check_file(path: Path) -> None:
    """Raise an error unless this is a regular file; reading a pipe, for example, could wait forever."""
    where = shown(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise ReadError(
            f"{where}: there is no such file; check the path, or see `purerec data list` for names"
        ) from None
    except (OSError, ValueError) as error:
        raise ReadError(f"{where}: cannot be opened ({reason(error)}); check the path and its permissions") from None
    if stat.S_ISDIR(mode):
        raise ReadError(f"{where}: is a directory; give the file of interactions inside it")
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in _KINDS if test(mode)), "no regular file")
        raise ReadError(f"{where}: is {kind}, not a file; write its content to a file and give that")


def reason(error: BaseException) -> str:
    """What went wrong, in a few words without the path."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def raise_not_utf8(raw: bytes, error: UnicodeDecodeError, where: str, *, first_line: int = 1) -> NoReturn:
    row = raw.count(b"\n", 0, error.start) + first_line
    raise ReadError(
        f"{where}: row {row} is not UTF-8 (byte 0x{raw[error.start]:02x})",
        "save it as UTF-8, or pass encoding='latin-1' if that is what it is",
        command="save it as UTF-8, or give --encoding latin-1 if that is what it is",
    ) from None


def _mapped(file: BinaryIO) -> bytes | mmap.mmap:
    # Some files (those in /proc) have content but no size, and cannot be mapped.
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.fstat(file.fileno()).st_size else file.read()


def _unpacked(file: BinaryIO, where: str, *, beginning: bool) -> bytes:
    """The content of a gzip file, piece by piece, because a small file may decompress to more than fits in memory."""
    room, whole = _available_memory(), io.BytesIO()
    try:
        with gzip.GzipFile(fileobj=file) as packed:
            while piece := packed.read(_UNPACKED_AT_ONCE):
                whole.write(piece)
                if beginning:
                    break
                if whole.tell() > room // 2:
                    raise ReadError(
                        f"{where}: unpacks to more than {whole.tell() / 2**30:.1f} GB, which does not fit into "
                        f"memory ({room / 2**30:.1f} GB free); give a smaller file or use a larger machine"
                    )
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ReadError(
            f"{where}: cannot be read, the gzip file is damaged ({reason(error)}); get it again"
        ) from None
    return whole.getvalue()


def _available_memory() -> int:
    """Free memory in bytes; if the system does not report it (macOS), the machine's total memory."""
    if (free_mb := available_mb()) is not None:
        return int(free_mb * 2**20)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):  # no such name or function on this system
        return 1 << 40


def text_codec(encoding: str, where: str) -> str:
    """The canonical name of an encoding."""
    try:
        b"ab".decode(encoding)  # fails for zip and other codecs that are not text encodings
    except UnicodeDecodeError:
        pass  # an encoding in which these two bytes are not text
    except (LookupError, ValueError):
        raise ReadError(
            f"{where}: cannot be read as {encoding}, which is not a text encoding; "
            "use utf-8, latin-1, utf-16 or another that Python knows"
        ) from None
    return codecs.lookup(encoding).name


def refuse_binary(raw: bytes | mmap.mmap, codec: str, where: str) -> None:
    if raw[:4] in (b"PAR1", b"PK\x03\x04"):
        zipped = "save the sheet as CSV" if where.lower().endswith((".xlsx", ".ods")) else "unpack it"
        remedy = "name it .parquet" if raw[:4] == b"PAR1" else f"{zipped} and give the CSV or TSV file"
    elif codec == "utf-8" and raw[:2] in _UTF_16:
        raise ReadError(f"{where}: is UTF-16, not UTF-8", "pass encoding='utf-16'", command="give --encoding utf-16")
    elif codec == "utf-8" and raw.find(b"\0", 0, SAMPLE_BYTES) >= 0:
        remedy = "give CSV, TSV, .dat, .inter or Parquet"
    else:
        return
    raise ReadError(f"{where}: is a binary file, not text; {remedy}")


def _recoded(raw: bytes, codec: str, where: str) -> bytes:
    try:
        return raw.decode(codec).encode()
    except UnicodeDecodeError as error:
        row = raw.count(b"\n", 0, error.start) + 1
        fact = f"row {row} is not {codec} ({error.reason} at byte {error.start:,})"
    except (UnicodeError, ValueError) as error:
        fact = f"it is not {codec} ({reason(error)})"
    raise ReadError(f"{where}: {fact}; give the encoding that the file has, such as latin-1")
