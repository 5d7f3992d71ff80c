"""One citation as BibTeX writes it."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    kind: str
    key: str
    fields: dict[str, str]

    def text(self) -> str:
        lines = [f"  {name:<9} = {{{value}}}," for name, value in self.fields.items()]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


def arxiv(key: str, title: str, author: str, year: int, eprint: str, venue: str = "") -> Entry:
    fields = {"title": title, "author": author, "year": str(year)}
    if venue:
        fields["booktitle"] = venue
    fields |= {"eprint": eprint, "archiveprefix": "arXiv"}
    return Entry("inproceedings" if venue else "misc", key, fields)


def article(
    key: str,
    title: str,
    author: str,
    journal: str,
    year: int,
    volume: str,
    pages: str,
    number: str = "",
) -> Entry:
    fields = {"title": title, "author": author, "journal": journal, "volume": volume}
    if number:
        fields["number"] = number
    return Entry("article", key, {**fields, "pages": pages, "year": str(year)})
