"""Licences of articles: short names, and which of them allow a dataset to be made and passed on."""

from __future__ import annotations

import re
from typing import NamedTuple

UNKNOWN = "unknown"
PUBLIC_DOMAIN = "public domain"
_ADDRESS = re.compile(
    r"creativecommons\.org/(?:licenses|publicdomain)/([a-z+-]+)(?:/(\d\.\d))?", re.IGNORECASE
)
_SHORT = re.compile(
    r"\bcc[\s-]*(0|by(?:[\s-]*(?:nc|nd|sa))*)\b(?:[\s-]*(?:international|licen[sc]e)?\s*(\d\.\d))?",
    re.IGNORECASE,
)
# "Creative Commons Attribution-NonCommercial License", as many articles say without an address.
_SPELT = re.compile(
    r"creative\s+commons\s+(?:licen[sc]e\s*\(?\s*)?attribution((?:[\s,/-]+(?:non-?\s?commercial|"
    r"no-?\s?deriv\w*|share-?\s?alike|and))*)(?:[\s(]*(?:international|licen[sc]e)?\s*(\d\.\d))?",
    re.IGNORECASE,
)
_SPELT_PARTS = (("nc", r"non-?\s?commercial"), ("nd", r"no-?\s?deriv"), ("sa", r"share-?\s?alike"))
_FREE = re.compile(r"\bpublic domain\b", re.IGNORECASE)
_NAMES = {"zero": "CC0", "0": "CC0", "mark": PUBLIC_DOMAIN}
_ALLOWED = {"BY", "NC", "SA"}
# A figure that somebody else owns, in an article whose own licence is open.
_BORROWED = re.compile(
    r"\b(?:reproduced|reprinted|republished|adapted|modified|used|taken)\b[^;]{0,160}?\b"
    r"(?:with|by)\s+(?:the\s+)?(?:kind\s+)?permission\b|\ball rights reserved\b",
    re.IGNORECASE,
)


class Licence(NamedTuple):
    """``redistributable``: items made from the figure may be published with it. No-derivatives
    licences, unknown ones and reserved rights do not allow that; non-commercial ones do, under
    their own terms."""

    name: str
    url: str
    redistributable: bool


def read_licence(*texts: str) -> Licence:
    """The licence named in the first text that names one: an address, "CC BY-NC 4.0", or the name
    in full."""
    for text in texts:
        match = _ADDRESS.search(text)
        if match is not None:
            version = match[2] or ""
            name = _short(match[1], version)
            folder = "publicdomain" if name in ("CC0", PUBLIC_DOMAIN) else "licenses"
            tail = f"/{version}/" if version else "/"
            url = f"https://creativecommons.org/{folder}/{match[1].lower()}{tail}"
            return Licence(name, url, _allows(name))
    for text in texts:
        match = _SHORT.search(text)
        if match is not None:
            name = _short("-".join(re.split(r"[\s-]+", match[1])), match[2] or "")
            return Licence(name, "", _allows(name))
    for text in texts:
        match = _SPELT.search(text)
        if match is not None:
            parts = [code for code, rule in _SPELT_PARTS if re.search(rule, match[1], re.I)]
            name = _short("-".join(["by", *parts]), match[2] or "")
            return Licence(name, "", _allows(name))
    if any(_FREE.search(text) for text in texts):
        return Licence(PUBLIC_DOMAIN, "", True)
    return Licence(UNKNOWN, "", False)


def is_borrowed(caption: str) -> bool:
    """Whether a caption says that the figure is another owner's, and names no open licence for it."""
    return bool(_BORROWED.search(caption)) and not read_licence(caption).redistributable


def _short(code: str, version: str) -> str:
    code = code.lower()
    if code in _NAMES:
        return _NAMES[code]
    return f"CC {code.upper()}{f' {version}' if version else ''}"


def _allows(name: str) -> bool:
    if name in ("CC0", PUBLIC_DOMAIN):
        return True
    return set(name.split()[1].split("-")) <= _ALLOWED
