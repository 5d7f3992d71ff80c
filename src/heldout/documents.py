"""XML and YAML that anybody may have written: read within limits, and nothing in them unfolds, is fetched or runs."""

from __future__ import annotations

import html
import io
from collections.abc import Iterator
from typing import IO, Any, Literal, Protocol
from xml.etree import ElementTree
from xml.parsers import expat

from heldout.errors import InputError

MOST_XML = 64 * 2**20  # bytes; the longest article of PubMed Central has about 20 MB
MOST_DEPTH = 500
MOST_HELD = 2**20  # elements and attributes in memory at a time
MOST_ELEMENTS = 2**24  # in one document, whether they are kept or not
_CHUNK = 1 << 16


class XmlError(Exception):
    """The document is broken or hostile; the message gives the reason."""


def xml_elements(
    file: IO[bytes], wanted: str = "", most_bytes: int = MOST_XML
) -> Iterator[ElementTree.Element]:
    """The root element, or every element of the local name ``wanted``, of which one at a time is in memory.

    Namespaces are left as prefixes (``xlink:href``). A document type may be named, but is not fetched, and what
    a document declares itself (entities, defaults of attributes) is refused: both grow without end.
    """
    tree = _Tree(wanted)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.StartElementHandler = tree.start
    parser.EndElementHandler = tree.end
    parser.CharacterDataHandler = tree.data
    parser.EntityDeclHandler = _declared
    parser.AttlistDeclHandler = _declared
    parser.ElementDeclHandler = _declared
    parser.SkippedEntityHandler = tree.skipped
    parser.ExternalEntityRefHandler = lambda *_: 0
    fed, more = 0, True
    try:
        while more:
            # Expat looks at an unfinished token again with every piece: pieces grow with what is unfinished.
            piece = file.read(max(_CHUNK, fed - max(parser.CurrentByteIndex, 0)))
            fed, more = fed + len(piece), bool(piece)
            if fed > most_bytes:
                raise XmlError(f"more than {most_bytes:,} bytes, the most that are read")
            parser.Parse(piece, not more)
            yield from tree.done
            tree.done.clear()
    except expat.ExpatError as error:
        raise XmlError(f"not well-formed XML: {error}") from error
    except (LookupError, ValueError) as error:  # an unknown encoding
        raise XmlError(f"its encoding cannot be read: {error}") from error


def parse_xml(data: bytes) -> ElementTree.Element:
    """The root element, with all that is in it."""
    (root,) = xml_elements(io.BytesIO(data))
    return root


def _declared(name: str, *_: object) -> None:
    raise XmlError(f"it declares '{name:.60}' itself; expected a document without declarations")


class _Tree:
    """Takes what the parser meets; ``done``: elements that are whole."""

    def __init__(self, wanted: str) -> None:
        self.done: list[ElementTree.Element] = []
        self._wanted = wanted
        self._builder: ElementTree.TreeBuilder | None = None
        self._depth = self._top = self._held = self._met = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._met += 1
        if self._depth > MOST_DEPTH:
            raise XmlError(f"elements are nested more than {MOST_DEPTH} deep")
        if self._met > MOST_ELEMENTS:
            raise XmlError(f"more than {MOST_ELEMENTS:,} elements")
        if self._builder is None:
            if self._wanted and name.rpartition(":")[2] != self._wanted:
                return
            self._builder, self._top, self._held = ElementTree.TreeBuilder(), self._depth, 0
        self._held += 1 + len(attributes)
        if self._held > MOST_HELD:
            raise XmlError(f"more than {MOST_HELD:,} elements and attributes in one {name:.60}")
        self._builder.start(name, attributes)

    def end(self, name: str) -> None:
        if self._builder is not None:
            self._builder.end(name)
            if self._depth == self._top:
                self.done.append(self._builder.close())
                self._builder = None
        self._depth -= 1

    def data(self, text: str) -> None:
        if self._builder is not None:
            self._builder.data(text)

    def skipped(self, name: str, is_parameter: int) -> None:
        """An entity of the document type, which is not read: HTML's names cover those that articles use."""
        if not is_parameter:
            self.data(html.unescape(f"&{name};"))


Place = tuple[str | int, ...]
MOST_YAML = 1_000_000  # bytes
MOST_NODES = 50_000  # aliases of aliases unfold a few lines into billions


class Readable(Protocol):
    """A file here, elsewhere, or in a package."""

    def open(self, mode: Literal["rb"], /) -> IO[bytes]: ...


def read_yaml(path: Readable, about: str = "") -> tuple[Any, dict[Place, int]]:
    """The document, and the line (from 1) of every key and entry by its place.

    Safe types only: no dates (they stay texts), no merged and no repeated keys.

    Args:
        path: The file.
        about: What errors begin with; the default is the path.

    Raises:
        InputError: It is empty or cannot be read; with the line where there is one.
    """
    import yaml  # type: ignore[import-untyped]

    about = about or str(path)
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_YAML + 1)
    except OSError as error:
        raise InputError(f"{about} cannot be read: {error.strerror or error}") from error
    if len(raw) > MOST_YAML:
        raise InputError(
            f"{about} is larger than {MOST_YAML:,} bytes, the most that are read as YAML"
        )
    lines: dict[Place, int] = {}
    try:
        loader = yaml.SafeLoader(raw.decode("utf-8-sig"))
        # Of this loader alone: a text like 2024-99-99 is a text.
        loader.yaml_implicit_resolvers = {
            first: [rule for rule in rules if not rule[0].endswith(":timestamp")]
            for first, rules in loader.yaml_implicit_resolvers.items()
        }
        node = loader.get_single_node()
        if node is None:
            raise InputError(f"{about} is empty")
        _walk(node, (), lines, about)
        return loader.construct_document(node), lines
    except UnicodeDecodeError as error:
        raise InputError(f"{about} is not UTF-8 text (byte {error.start})") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(f"{about}{where} is not YAML: {problem}") from error
    except InputError:
        raise
    # thousands of brackets or digits; a tag such as !!bool on what is none
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise InputError(f"{about} is not YAML that can be read: {error}") from error


def _walk(node: Any, place: Place, lines: dict[Place, int], about: str) -> None:
    """Note the line of every place, with aliases unfolded."""
    import yaml

    lines.setdefault(place, node.start_mark.line + 1)
    if len(lines) > MOST_NODES:
        raise InputError(f"{about} has more than {MOST_NODES:,} entries once its aliases unfold")
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise InputError(f"{about}, line {line}: expected a text as a key, not a list")
            if key.tag.endswith(":merge"):
                raise InputError(
                    f"{about}, line {line}: keys are not merged by '<<'; write them out"
                )
            name = str(key.value)
            if name in seen:
                raise InputError(
                    f"{about}, line {line}: the key '{name}' is given in line {seen[name]} already"
                )
            seen[name] = line
            lines[(*place, name)] = line
            _walk(value, (*place, name), lines, about)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*place, index), lines, about)
