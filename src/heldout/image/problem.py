"""An image that cannot be used, and the limits on images."""

from __future__ import annotations

import re

from heldout.errors import HeldoutError, blame_the_machine
from heldout.store import FAILED, OUT_OF_MEMORY

# Pillow's own "this is an attack" limit (twice its warning limit), made ours so that it is stable.
MAX_PIXELS = 178_956_970
MAX_BYTES = 512 * 1024 * 1024
# Each scan of a progressive JPEG is a pass over the whole picture; encoders write up to a few dozen.
MAX_SCANS = 100


_SCAN = b"\xff\xda"
_MARK = re.compile(rb"\xff[\x02-\xfe]")


class ImageError(HeldoutError):
    """An image that cannot be used: ``reason`` in few stable words, ``detail`` the facts."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[type[ImageError], tuple[str, str]]:
        return ImageError, (self.reason, self.detail)  # survives the trip between processes


def check_scans(data: bytes) -> None:
    """Raises ImageError on a JPEG of more scans than any encoder writes, anywhere in a file."""
    if data.count(_SCAN) <= MAX_SCANS:  # it stands before scans, and by chance in other data
        return
    at = data.find(b"\xff\xd8\xff")
    scans = 0
    while at >= 0 and (mark := _MARK.search(data, at)) is not None:
        code, at = data[mark.end() - 1], mark.end()
        if code == 0xD9:  # the picture ends; another one may follow
            at, scans = data.find(b"\xff\xd8\xff", at), 0
        elif not 0xD0 <= code <= 0xD8:  # any other mark begins a segment, which says how long it is
            at += int.from_bytes(data[at : at + 2])
            scans += code == 0xDA
        if scans > MAX_SCANS:
            raise ImageError("too many scans", f"a JPEG of more than {MAX_SCANS} scans")


def image_error(error: Exception) -> ImageError:
    """The reason why a picture is left out, whatever went wrong with it.

    Errors that are not the picture's fault are raised again: a full disk, a missing package, a wrong setting.
    """
    if isinstance(error, ImageError):
        return error
    if isinstance(error, HeldoutError):
        raise error
    blame_the_machine(error)
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return ImageError(OUT_OF_MEMORY, text or "it needs more memory than there is")
    return ImageError(FAILED, f"{type(error).__name__}: {text}")


# The kind of a file or an archive member, from its ending or, failing that, its first bytes.


IMAGE_ENDINGS = frozenset(
    {
        ".jpg",
        ".jpeg",
        ".jpe",
        ".jfif",
        ".png",
        ".gif",
        ".bmp",
        ".dib",
        ".webp",
        ".tif",
        ".tiff",
        ".ppm",
        ".pgm",
        ".pbm",
        ".pnm",
        ".jp2",
        ".j2k",
        ".jpx",
        ".avif",
        ".ico",
        ".tga",
        ".pcx",
        ".dcm",
        ".mpo",
    }
)
TEXT_ENDINGS = frozenset({".txt", ".caption", ".text", ".cap"})
# Files that lie beside images and are never images themselves.
SIDECAR_ENDINGS = TEXT_ENDINGS | {
    ".json",
    ".jsonl",
    ".md",
    ".csv",
    ".tsv",
    ".xml",
    ".nxml",
    ".yaml",
    ".yml",
    ".html",
    ".log",
    ".rst",
    ".license",
    ".sha256",
    ".md5",
    ".bib",
    ".cff",
}
_SIDECAR_NAMES = frozenset(
    {
        "readme",
        "license",
        "licence",
        "copying",
        "notice",
        "thumbs.db",
        "desktop.ini",
        ".ds_store",
        ".directory",
        ".gitattributes",
        ".gitignore",
        ".gitkeep",
    }
)
JPEG = b"\xff\xd8"  # how every file of this format begins
HEAD = 140  # enough for every signature below; DICOM's stands at byte 128

_SIGNATURES = (
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n",
    b"GIF8",
    b"II*\0",
    b"MM\0*",
    b"\0\0\0\x0cjP  ",
    b"\xff\x4f\xff\x51",
)


def ending(name: str) -> str:
    """The part from the last dot of the last path component on, in lower case; "" without one."""
    base = name.rpartition("/")[2]
    dot = base.rfind(".")
    return base[dot:].lower() if dot > 0 else ""


def is_sidecar(name: str) -> bool:
    """True for files that lie beside images: captions, a README, a file of the desktop."""
    return ending(name) in SIDECAR_ENDINGS or name.rpartition("/")[2].lower() in _SIDECAR_NAMES


def looks_like_image(head: bytes) -> bool:
    """True if the first bytes are those of an image format that ``heldout.image`` decodes."""
    if head.startswith(_SIGNATURES):
        return True
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return True
    if head[:2] == b"BM" and head[6:10] == bytes(4):  # two letters alone begin many a text
        return True
    return head[4:12] in (b"ftypavif", b"ftypavis") or head[128:132] == b"DICM"


def unsafe(name: str) -> bool:
    """True for a member name that would leave the folder it is extracted to."""
    parts = name.replace("\\", "/").split("/")
    return not name or "\0" in name or parts[0] == "" or ".." in parts or name[1:2] == ":"


def readable(name: str) -> str:
    """A file name as text that any table can hold: bytes that are not UTF-8 become escapes."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")
