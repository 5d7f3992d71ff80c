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
_NAMES = {"zero": "CC0", "mark": PUBLIC_DOMAIN}
_ALLOWED = {"BY", "NC", "SA"}
_QUOTED = 80  # characters of a statement that names no known licence
# A figure that somebody else owns, in an article whose own licence is open. Consent of a patient is no
# copyright; "(c) 2019" is a notice, "(c)" alone a panel.
_BORROWED = re.compile(
    r"\b(?:reproduced|reprinted|republished|adapted|modified|used|taken)\b[^;]{0,160}?\b"
    r"(?:with|by)\s+(?:the\s+)?(?:kind\s+)?permission\b|\ball rights reserved\b"
    r"|\bpermission\s+(?:from|of)\s+(?!(?:the\s+|his\s+|her\s+)?(?:patient|parent|participant|famil|relative))"
    r"|©|\(c\)\s*(?:19|20)\d\d|\bcopyright(?:ed)?\b(?!-|\s+free)",
    re.IGNORECASE,
)


class Licence(NamedTuple):
    """``redistributable``: items made from the figure may be published with it. No-derivatives
    licences, unknown ones and reserved rights do not allow that; non-commercial ones do, under
    their own terms. ``text``: how the statement begins in which no known licence was found."""

    name: str
    url: str
    redistributable: bool
    text: str = ""


def read_licence(*texts: str) -> Licence:
    """The licence that the texts name: by an address, as "CC BY-NC 4.0", or in full. Of several the most
    restrictive: who passes a figure on cannot choose among statements that contradict each other."""
    licences = [
        *(_licence(match[1], match[2]) for text in texts for match in _ADDRESS.finditer(text)),
        *(
            _licence("-".join(re.split(r"[\s-]+", match[1])), match[2])
            for text in texts
            for match in _SHORT.finditer(text)
        ),
        *(
            _licence(_spelt(match[1]), match[2])
            for text in texts
            for match in _SPELT.finditer(text)
        ),
    ]
    if licences:  # the first of equally restrictive ones, and of these one with a version
        return max(
            licences, key=lambda licence: (*_restriction(licence), licence.name[-1:].isdigit())
        )
    if any(_FREE.search(text) for text in texts):
        return Licence(PUBLIC_DOMAIN, "", True)
    return Licence(UNKNOWN, "", False, " ".join(" ".join(texts).split())[:_QUOTED])


def _licence(code: str, version: str | None) -> Licence:
    """By the code as addresses spell it: "by-nc", "zero". The address is that of the licence itself."""
    code = {"0": "zero"}.get(code.lower(), code.lower())
    name = _NAMES.get(code) or f"CC {code.upper()}{f' {version}' if version else ''}"
    free = code in _NAMES
    tail = version or ("1.0" if free else "")
    folder = "publicdomain" if free else "licenses"
    url = f"https://creativecommons.org/{folder}/{code}/{f'{tail}/' if tail else ''}"
    return Licence(name, url, free or set(code.upper().split("-")) <= _ALLOWED)


def _spelt(conditions: str) -> str:
    parts = [code for code, rule in _SPELT_PARTS if re.search(rule, conditions, re.IGNORECASE)]
    return "-".join(["by", *parts])


def _restriction(licence: Licence) -> tuple[bool, int, bool]:
    conditions = () if licence.name in _NAMES.values() else licence.name.split()[1].split("-")
    return not licence.redistributable, len(conditions), "NC" in conditions


def needs_attribution(licence: str) -> bool:
    """Whether the licence lets a figure be passed on only with the names of its authors and its source."""
    return licence not in _NAMES.values()


def copyright_notice(caption: str) -> str:
    """The words of a caption that say that the figure is another owner's; empty where there are none, or
    where the caption names an open licence for it."""
    match = _BORROWED.search(caption)
    if match is None or read_licence(caption).redistributable:
        return ""
    return caption[match.start() : match.end() + 40].strip()
