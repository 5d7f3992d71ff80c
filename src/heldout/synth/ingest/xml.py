"""XML of strangers: no entity is declared, expanded or fetched, and depth and size are bounded."""

from __future__ import annotations

import html
import xml.etree.ElementTree as ET
from xml.parsers import expat

MOST_BYTES = 64 * 2**20  # the longest article of PubMed Central has about 20 MB
MOST_DEPTH = 500


class XmlError(Exception):
    """The document is broken or hostile; the message says how."""


def parse_xml(data: bytes) -> ET.Element:
    """The root element; namespaces are left as prefixes (``xlink:href``), which is how JATS is written."""
    if len(data) > MOST_BYTES:
        raise XmlError(f"{len(data):,} bytes, at most {MOST_BYTES:,} are read")
    builder = ET.TreeBuilder()
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MOST_DEPTH:
            raise XmlError(f"elements are nested more than {MOST_DEPTH} deep")
        builder.start(name, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(name)

    def declared(name: str, *_: object) -> None:
        raise XmlError(f"it declares the entity '{name}'")

    def skipped(name: str, is_parameter: int) -> None:
        """An entity of the DTD, which is not read: HTML's names cover those that articles use."""
        if not is_parameter:
            builder.data(html.unescape(f"&{name};"))

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = declared
    parser.SkippedEntityHandler = skipped
    parser.ExternalEntityRefHandler = lambda *_: 0
    try:
        parser.Parse(data, True)
        return builder.close()
    except expat.ExpatError as error:
        raise XmlError(f"not well-formed XML: {error}") from error
    except (LookupError, ValueError) as error:  # an encoding that nobody knows
        raise XmlError(f"its encoding cannot be read: {error}") from error
    except AssertionError as error:  # TreeBuilder, of a document without elements
        raise XmlError("no element in it") from error
