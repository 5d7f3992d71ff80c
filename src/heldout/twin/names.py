"""Names that twins go by: of files, and of random draws."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any


def file_name(identifier: str, *parts: str) -> str:
    """A file name that no id can leave and no two ids share, still readable."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", identifier).strip("-")[:40]
    return "-".join([*([plain] if plain else []), digest(identifier)[:8], *parts])


def digest(value: Any) -> str:
    """Of anything that JSON can hold."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
