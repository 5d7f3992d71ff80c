"""Licences of articles: short names, and which of them allow a dataset to be made and passed on."""

from __future__ import annotations

import re
from typing import NamedTuple

UNKNOWN = "unknown"
_CREATIVE = re.compile(
    r"creativecommons\.org/(?:licenses|publicdomain)/([a-z-]+)(?:/(\d\.\d))?", re.IGNORECASE
)
_WORDS = re.compile(
    r"\bcc[\s-]*(0|by(?:[\s-]*(?:nc|nd|sa))*)\b(?:[\s-]*(?:international|licen[sc]e)?\s*(\d\.\d))?",
    re.IGNORECASE,
)
_NAMES = {"zero": "CC0", "0": "CC0", "mark": "public domain"}


class Licence(NamedTuple):
    """``redistributable``: items made from the figure may be published with it. No-derivatives
    licences, unknown ones and reserved rights do not allow that; non-commercial ones do, under
    their own terms."""

    name: str
    url: str
    redistributable: bool


def read_licence(*texts: str) -> Licence:
    """The licence named in the first text that names one: an address, or words like "CC BY-NC 4.0"."""
    for text in texts:
        match = _CREATIVE.search(text)
        if match is not None:
            version = match[2] or ""
            name = _short(match[1], version)
            folder = "publicdomain" if name in ("CC0", "public domain") else "licenses"
            tail = f"/{version}/" if version else "/"
            url = f"https://creativecommons.org/{folder}/{match[1].lower()}{tail}"
            return Licence(name, url, _allows(name))
    for text in texts:
        match = _WORDS.search(text)
        if match is not None:
            name = _short("-".join(re.split(r"[\s-]+", match[1])), match[2] or "")
            return Licence(name, "", _allows(name))
    return Licence(UNKNOWN, "", False)


def _short(code: str, version: str) -> str:
    code = code.lower()
    if code in _NAMES:
        return _NAMES[code]
    return f"CC {code.upper()}{f' {version}' if version else ''}"


def _allows(name: str) -> bool:
    return "ND" not in re.split(r"[\s-]", name)
