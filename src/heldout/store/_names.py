"""Names and files: a name of any length and signs as a file's, and a text that may be a path."""

from __future__ import annotations

import errno
import hashlib
import re
from pathlib import Path


def file_name(name: str, most: int = 80) -> str:
    """A name as that of a file or folder: safe, of at most so many letters and a digest; different ones stay so."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:most]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return safe if safe == name else f"{safe}-{digest}"


def is_path(text: str | Path) -> bool:
    """Whether there is such a file or folder; a text that is too long for a path, or no text, is none."""
    try:
        return Path(text).exists()
    except ValueError:  # a zero byte
        return False
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise
