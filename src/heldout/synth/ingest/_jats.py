"""Figures of an article in JATS XML: captions, the paragraphs that mention them, licence, attribution."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from heldout.documents import parse_xml as parse_xml

# Licences of articles: short names, and which of them allow a dataset to be made and passed on.


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
# A figure of another owner, in an article whose own licence is open. Consent of a patient is no
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
    """The licence that the texts name: by an address, as "CC BY-NC 4.0", or in full. Of several, the most
    restrictive one: contradictory statements leave no choice."""
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
    """Whether the licence requires that a figure is passed on with the names of its authors and its source."""
    return licence not in _NAMES.values()


def copyright_notice(caption: str) -> str:
    """The words of a caption that say that the figure is another owner's; empty where there are none, or
    where the caption names an open licence for it."""
    match = _BORROWED.search(caption)
    if match is None or read_licence(caption).redistributable:
        return ""
    return caption[match.start() : match.end() + 40].strip()


_DROPPED = {"object-id", "label", "table-wrap", "disp-formula-group", "tex-math", "permissions"}
_BLOCKS = {"p", "title", "sec", "list-item", "disp-quote"}
_MOST_AUTHORS = 3


@dataclass(frozen=True)
class ArticleFigure:
    """``graphics``: names of the images as the XML gives them, often without their ending;
    ``names``: what else the figure is called, for packages whose files are named after that."""

    id: str
    label: str
    caption: str
    references: tuple[str, ...]
    graphics: tuple[str, ...]
    names: tuple[str, ...]
    licence: Licence


@dataclass(frozen=True)
class Article:
    """``id``: PMC number, else DOI, else the publisher's id; empty where the XML has none."""

    id: str
    attribution: str
    licence: Licence
    figures: tuple[ArticleFigure, ...]


def read_article(root: ET.Element) -> Article | None:
    """The article in a JATS document, or None where the root is no article (a manifest, say)."""
    if _name(root.tag) != "article":
        return None
    front = root.find("front")
    meta = front.find("article-meta") if front is not None else None
    licence = _licence_of_article(meta)
    parents = {child: parent for parent in root.iter() for child in parent}
    mentions = _mentions(root, parents)
    figures = []
    for number, figure in enumerate(_units(root), 1):
        graphics = tuple(dict.fromkeys(_graphics(figure)))
        name = figure.get("id") or f"fig-{number}"
        caption = _text(figure.find("caption"))
        own = _licence_of_article(
            figure.find("permissions"), figure.find("caption"), default=licence
        )
        names = (*(_text(element) for element in figure.findall("object-id")), name)
        # Of a group, the text mentions the group or any of its parts.
        inside = [
            name,
            *(part.get("id") or "" for part in figure.iter("fig") if part is not figure),
        ]
        references = tuple(
            dict.fromkeys(text for called in inside for text in mentions.get(called, ()))
        )
        label = _text(figure.find("label"))
        figures.append(ArticleFigure(name, label, caption, references, graphics, names, own))
    return Article(_identifier(meta), _attribution(meta), licence, tuple(figures))


def _units(root: ET.Element) -> Iterator[ET.Element]:
    """What has one caption each: a ``fig``, or a ``fig-group`` whose caption covers all its parts."""
    joined: set[ET.Element] = set()
    for element in root.iter():
        if element.tag == "fig-group" and element.find("caption") is not None:
            parts = list(element.iter("fig"))
            if parts and all(part.find("caption") is None for part in parts):
                joined.update(parts)
                yield element
        elif element.tag == "fig" and element not in joined:
            yield element


def _name(tag: str) -> str:
    return tag.rpartition(":")[2]


def _graphics(figure: ET.Element) -> Iterator[str]:
    """One name per picture: of ``alternatives`` the first graphic, since all show the same."""
    for element in figure.iter():
        if element.tag == "alternatives":
            first = next(iter(element.iter("graphic")), None)
            if first is not None and (href := _href(first)):
                yield href
    inside = {graphic for group in figure.iter("alternatives") for graphic in group.iter("graphic")}
    for graphic in figure.iter("graphic"):
        if graphic not in inside and (href := _href(graphic)):
            yield href


def _href(element: ET.Element) -> str:
    for key, value in element.attrib.items():
        if _name(key) == "href":
            return value.strip()
    return ""


def _mentions(root: ET.Element, parents: dict[ET.Element, ET.Element]) -> dict[str, list[str]]:
    """By figure id the paragraphs of the body that point to it, once each, in reading order."""
    mentions: dict[str, dict[str, None]] = {}
    for reference in root.iter("xref"):
        if reference.get("ref-type") not in (None, "fig", "figure"):
            continue
        paragraph: ET.Element | None = reference
        while paragraph is not None and paragraph.tag != "p":
            paragraph = parents.get(paragraph)
        if paragraph is None or _inside(paragraph, "fig", parents):
            continue  # a caption that points to another figure is no mention in the text
        text = _text(paragraph)
        for name in (reference.get("rid") or "").split():
            mentions.setdefault(name, {})[text] = None
    return {name: list(texts) for name, texts in mentions.items()}


def _inside(element: ET.Element, tag: str, parents: dict[ET.Element, ET.Element]) -> bool:
    above = parents.get(element)
    while above is not None:
        if above.tag == tag:
            return True
        above = parents.get(above)
    return False


def _text(element: ET.Element | None) -> str:
    """The words of an element on one line, without markup, formula sources and object ids."""
    if element is None:
        return ""
    parts: list[str] = []

    def walk(current: ET.Element) -> None:
        if _name(current.tag) in _DROPPED and current is not element:
            return
        parts.append(current.text or "")
        for child in current:
            walk(child)
            parts.append(" " if child.tag in _BLOCKS else "")
            parts.append(child.tail or "")

    walk(element)
    return re.sub(r"\s+", " ", "".join(parts)).strip()


def _licence_of_article(*elements: ET.Element | None, default: Licence | None = None) -> Licence:
    """The licence that the elements state; ``default`` where they say nothing about rights. A copyright notice
    without a licence is a statement: such a figure has another owner."""
    texts = []
    for element in elements:
        if element is None:
            continue
        for licence in element.iter("license"):
            texts += [_href(licence), *(_href(link) for link in licence.iter()), _text(licence)]
        for reference in element.iter("ali:license_ref"):
            texts.append(_text(reference))
        if default is not None and element.tag == "permissions":
            texts.append(_text(element))
    return default if default is not None and not any(texts) else read_licence(*texts)


def _identifiers(meta: ET.Element) -> dict[str, str]:
    return {
        element.get("pub-id-type") or "": _text(element) for element in meta.findall("article-id")
    }


def _identifier(meta: ET.Element | None) -> str:
    if meta is None:
        return ""
    known = _identifiers(meta)
    for kind in ("pmcid", "pmc", "doi", "pmid", "publisher-id"):
        if known.get(kind):
            value = known[kind]
            return f"PMC{value}" if kind == "pmc" and value.isdigit() else value
    return next(iter(known.values()), "")


def _attribution(meta: ET.Element | None) -> str:
    """Authors, title, year and identifiers: what CC BY requires. An article with a PMC number keeps its
    DOI here: a benchmark may name it by either."""
    if meta is None:
        return ""
    surnames = [
        _text(name.find("surname"))
        for group in meta.findall("contrib-group")
        for name in group.iter("name")
    ]
    authors = ", ".join(surnames[:_MOST_AUTHORS]) + (
        " et al." if len(surnames) > _MOST_AUTHORS else ""
    )
    title = _text(meta.find("title-group/article-title"))
    year = next((_text(date.find("year")) for date in meta.findall("pub-date")), "")
    identifier, doi = _identifier(meta), _identifiers(meta).get("doi", "")
    parts = (authors, title, year, identifier, f"doi:{doi}" if doi not in ("", identifier) else "")
    return ". ".join(part.rstrip(".") for part in parts if part)
