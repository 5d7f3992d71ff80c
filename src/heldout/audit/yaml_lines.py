"""YAML with the line of every key: safe types only, no key twice, no file that unfolds without end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from heldout.errors import InputError

Place = tuple[str | int, ...]
MOST_BYTES = 1_000_000
MOST_NODES = 50_000  # aliases of aliases unfold a few lines into billions


def read_yaml(path: Path) -> tuple[Any, dict[Place, int]]:
    """The document, and the line (from 1) of every key and entry by its place."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}. `heldout audit --init` writes an audit file"
        ) from error
    if len(raw) > MOST_BYTES:
        raise InputError(f"{path} is larger than an audit file can be ({MOST_BYTES:,} bytes)")
    try:
        loader = yaml.SafeLoader(raw.decode("utf-8-sig"))
        node = loader.get_single_node()
        if node is None:
            raise InputError(f"{path} is empty: `heldout audit --init` writes a file to start from")
        lines: dict[Place, int] = {}
        _walk(node, (), lines, path)
        return loader.construct_document(node), lines
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start})") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        told = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(f"{path}{where} is not YAML: {told}") from error
    except (ValueError, RecursionError) as error:  # a date like 2024-99-99, thousands of brackets
        raise InputError(f"{path} is not YAML that can be read: {error}") from error


def _walk(node: yaml.Node, place: Place, lines: dict[Place, int], path: Path) -> None:
    lines.setdefault(place, node.start_mark.line + 1)
    if len(lines) > MOST_NODES:
        raise InputError(f"{path} has more than {MOST_NODES:,} entries once its aliases unfold")
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in seen:
                raise InputError(
                    f"{path}, line {line}: the key '{name}' is given in line {seen[name]} already"
                )
            seen[name] = line
            lines[(*place, name)] = line
            _walk(value, (*place, name), lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*place, index), lines, path)
