"""The words of a page in HTML or XML, in the order in which they stand there.

The standard library's parser of HTML knows no entities but those of characters, and no defaults of a DTD: a hostile
page costs what its bytes cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html.parser import HTMLParser

ENDINGS = (".html", ".htm", ".xhtml", ".xml", ".nxml", ".svg")
_MARKS = (b"<!doctype", b"<html", b"<?xml")
# "Phrasing content" of the HTML standard: what stands inside a line. Every other element begins a new one.
_INLINE = frozenset(
    """
    a abbr b bdi bdo cite code data del dfn em font i ins kbd label mark output q s samp small span
    strike strong sub sup time tt u var wbr
    """.split()  # noqa: SIM905 - as the standard lists them
)
_UNSEEN = ("script", "style", "template", "noscript")
_SPOKEN = ("alt", "title", "aria-label")  # attributes that are shown or read out


def is_markup(ending: str, start: bytes) -> bool:
    return ending in ENDINGS or start.lstrip()[:9].lower().startswith(_MARKS)


def words_of(chunks: Iterable[str]) -> Iterator[str]:
    """The text of a page, chunk by chunk."""
    page = _Page()
    for chunk in chunks:
        page.feed(chunk)
        yield page.taken()
    page.close()
    yield page.taken()


class _List:
    """The markers that a browser shows before the entries of a list: "A. ", "2. "."""

    def __init__(self, numbered: bool, values: Mapping[str, str | None]) -> None:
        self.kind = (values.get("type") or "1") if numbered else ""
        self.next = _whole(values.get("start"), 1)

    def marker(self, values: Mapping[str, str | None]) -> str:
        number = _whole(values.get("value"), self.next)
        self.next = number + 1
        if not self.kind:
            return ""
        if self.kind in "Aa" and 0 < number <= 26:
            return f"{chr(ord(self.kind) + number - 1)}. "
        return f"{number}. "


def _whole(text: str | None, otherwise: int) -> int:
    short = text is not None and len(text) < 6 and text.strip().isdecimal()
    return int(text) if short and text is not None else otherwise


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.unseen = ""  # the element whose content nobody sees
        self.lists: list[_List] = []  # those that are open
        self.xml = False

    def taken(self) -> str:
        """What was read since the last time."""
        text = "".join(self.parts)
        self.parts.clear()
        return text

    def handle_pi(self, data: str) -> None:
        self.xml = self.xml or data.startswith("xml ")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        # Pages that a script builds keep their items as data beside it.
        if tag in _UNSEEN and "json" not in (values.get("type") or ""):
            self.unseen = tag
        self._break(tag)
        if tag in ("ol", "ul"):
            self.lists.append(_List(tag == "ol", values))
        elif tag == "li" and self.lists:
            self.parts.append(self.lists[-1].marker(values))
        self.parts += [f"{values[name]}\n" for name in _SPOKEN if values.get(name)]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == self.unseen:
            self.unseen = ""
        if tag in ("ol", "ul") and self.lists:
            self.lists.pop()
        self._break(tag)

    def handle_data(self, data: str) -> None:
        if not self.unseen:
            self.parts.append(data)

    def unknown_decl(self, data: str) -> None:
        if data.startswith("CDATA["):
            self.parts.append(data.removeprefix("CDATA["))

    def _break(self, tag: str) -> None:
        if tag not in _INLINE:
            self.parts.append(" " if self.xml else "\n")
