"""A key that a server repeats is struck out before anything else sees the text it stands in.

Servers and proxies quote what they were sent: as it is, percent-encoded in an address, escaped in JSON or
HTML, in base64 among other headers. Each of these forms is looked for. What a server scrambles on
purpose cannot be found.
"""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse
from typing import Any

STRUCK = "***"
_LONG = 8  # characters: a shorter key may be a word or a number that an answer holds, too
_WORD = 4  # characters: a shorter one is a secret only where it is called one
_HIDDEN = re.compile(r"\\u00[2-7]|\\\\")  # JSON may spell any letter by its number, or quote JSON

_ESCAPE = re.compile(r"%[0-9A-F]{2}")


class Secret:
    """What must not be stored or printed. ``redact`` for a text, ``clean`` for a parsed document."""

    def __init__(self, key: str | None) -> None:
        self._forms: tuple[str, ...] = ()
        self._words: re.Pattern[str] | None = None
        if key and len(key) >= _LONG:
            self._forms = _forms(key)
        elif key:
            bearer = rf"(?i:bearer)(?:\s|%20|\+)+{re.escape(key)}"
            word = rf"|(?<![\w-]){re.escape(key)}(?![\w-])" if len(key) >= _WORD else ""
            self._words = re.compile(bearer + word)

    def __repr__(self) -> str:
        return f"Secret({STRUCK})"

    def redact(self, text: str) -> str:
        """``text`` without the key in any of its forms."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, STRUCK)
        return text if self._words is None else self._words.sub(STRUCK, text)

    def clean(self, value: Any, source: str) -> Any:
        """``value``, parsed from the JSON text ``source``, with every string and name in it redacted."""
        if _HIDDEN.search(source) is None and self.redact(source) == source:
            return value  # megabytes of log-probabilities are not walked for nothing
        return self._walk(value)

    def _walk(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, list):
            return [self._walk(part) for part in value]
        if isinstance(value, dict):
            return {self.redact(name): self._walk(part) for name, part in value.items()}
        return value


def _forms(key: str) -> tuple[str, ...]:
    """Every way in which a key is commonly written, the longest first."""
    data, quote = key.encode(), urllib.parse.quote
    escaped, page = json.dumps(key)[1:-1], html.escape(key)
    percent = {quote(key, safe=""), quote(key), urllib.parse.quote_plus(key)}
    percent |= {"".join(f"%{byte:02X}" for byte in data)}
    percent |= {_ESCAPE.sub(lambda escape: escape[0].lower(), form) for form in percent}
    numbers = {"".join(f"\\u{byte:04{case}}" for byte in data) for case in "xX"}
    hexadecimal = {data.hex(), data.hex().upper(), data.hex(" "), data.hex(":")}
    forms = {
        key, key.upper(), key.lower(), escaped, escaped.replace("/", r"\/"),
        json.dumps(escaped)[1:-1], repr(key)[1:-1],
        page, page.replace("&#x27;", "&#39;"), quote(quote(key, safe=""), safe=""),
    }  # fmt: skip
    for before in range(3):
        # Base64 goes by three bytes, so that what precedes the key decides how it looks; letters that it
        # shares with its neighbours are left out.
        letters = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        shared = 1 if (before + len(data)) % 3 else 0
        whole = letters[-(-8 * before // 6) : len(letters) - shared]
        forms |= {whole, whole.replace("+", "-").replace("/", "_"), whole.replace("/", r"\/")}
        forms.add(quote(whole, safe=""))
    return tuple(
        sorted(forms | percent | numbers | hexadecimal, key=lambda form: (-len(form), form))
    )
