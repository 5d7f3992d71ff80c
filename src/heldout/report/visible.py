"""Text of strangers on a page: what a browser would obey or hide is shown instead."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

# Marks that turn the direction of everything after them, and characters of no width.
_HIDDEN = (*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF)
_SHOWN = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n\r"}
_SHOWN |= dict.fromkeys((127, *range(128, 160)), "�")
_SHOWN |= {code: f"[U+{code:04X}]" for code in _HIDDEN}


def visible(value: Any) -> Any:
    """For ``finalize`` of a template: control and bidirectional marks as symbols; our own markup stays."""
    if isinstance(value, str) and not isinstance(value, Markup) and not value.isprintable():
        return value.translate(_SHOWN)
    return value
