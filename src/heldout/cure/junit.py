"""JUnit XML, which every CI shows: one test case per benchmark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.etree import ElementTree

# Characters XML 1.0 cannot hold, not even escaped. An id is somebody else's text.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST = 100_000  # characters of detail: CI servers refuse reports of many megabytes


class JunitCase(NamedTuple):
    name: str
    failure: tuple[str, str] | None  # what failed in a line, and the details
    error: str | None  # why the case could not be judged in whole
    skipped: str | None = None  # why there is no verdict, where none was to be expected


def junit(suite: str, cases: Sequence[JunitCase]) -> bytes:
    """The report as UTF-8 bytes. No times: the same findings make the same file."""
    failures = sum(case.failure is not None for case in cases)
    errors = sum(case.failure is None and case.error is not None for case in cases)
    root = ElementTree.Element("testsuites")
    element = ElementTree.SubElement(
        root,
        "testsuite",
        {
            "name": _text(suite),
            "tests": str(len(cases)),
            "failures": str(failures),
            "errors": str(errors),
            "skipped": str(sum(_is_skipped(case) for case in cases)),
        },
    )
    for case in cases:
        sub_element = ElementTree.SubElement(
            element, "testcase", {"classname": _text(suite), "name": _text(case.name)}
        )
        if case.failure is not None:
            message, detail = case.failure
            failed = ElementTree.SubElement(
                sub_element, "failure", {"message": _text(message), "type": "leak"}
            )
            failed.text = _text(_short(detail))
        elif case.error is not None:
            ElementTree.SubElement(
                sub_element, "error", {"message": _text(case.error), "type": "not read in whole"}
            )
        elif case.skipped is not None:
            ElementTree.SubElement(sub_element, "skipped", {"message": _text(case.skipped)})
        if case.failure is not None and case.error is not None:
            ElementTree.SubElement(sub_element, "system-err").text = _text(case.error)
    ElementTree.indent(root)
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _is_skipped(case: JunitCase) -> bool:
    return case.failure is None and case.error is None and case.skipped is not None


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def _short(detail: str) -> str:
    if len(detail) <= _LONGEST:
        return detail
    kept = detail[:_LONGEST].rsplit("\n", 1)[0]
    more = detail.count("\n") - kept.count("\n")
    return f"{kept}\nand {more:,} more; all of them are in training_rows.csv"
