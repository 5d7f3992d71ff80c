"""Write constraints.txt: the versions that are installed here, and the SHA-256 of each file of them.

Also src/heldout/weights.sha256: of the weights that installed packages carry.

    python .ci/lock.py            # in the environment in which the suite has just passed

Files come from the index that pip uses, for every Python and machine that `install.py` names. What a version
needs is read from its own metadata. A package that is needed elsewhere and not installed here keeps its pin.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import html
import importlib.util
import io
import re
import sys
import tarfile
import tomllib
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email import message_from_bytes
from importlib.metadata import PackageNotFoundError, distribution
from itertools import product
from pathlib import Path
from typing import Any

from install import MACHINES, PYTHONS, ROOT, asked_for, plain
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

Place = tuple[str, str]  # Python and machine
PLACES: list[Place] = list(product(PYTHONS, MACHINES))
NEWEST_GLIBC = 39  # of manylinux, 2.39
EXTRAS = ("dev", "bench")  # all that is tested
TARGET = ROOT / "constraints.txt"
WEIGHTS = ROOT / "src/heldout/weights.sha256"
HEAD = """\
# Exact versions the suite is tested with, and the SHA-256 of their files for Python {pythons} on Linux ({machines}).
# Written by `python .ci/lock.py`, not by hand; `python -I .ci/install.py EXTRAS` installs from it. Ranges are in
# pyproject.toml: `pip install heldout` takes what is newest in them.
# torch and torchvision are a pair: one that does not fit the other breaks transformers' imports.
"""
_LINK = re.compile(r'<a[^>]* href="([^"#]+)#sha256=([0-9a-f]{64})"')


def environment(place: Place) -> dict[str, Any]:
    python, machine = place
    system = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    versions = {"python_version": python, "python_full_version": f"{python}.0"}
    return {**default_environment(), **system, **versions, "platform_machine": machine}


@functools.cache
def tags(place: Place) -> frozenset[Tag]:
    python, machine = place
    numbers = [int(part) for part in python.split(".")]
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(5, NEWEST_GLIBC + 1)]
    platforms += [
        f"{old}_{machine}" for old in ("manylinux1", "manylinux2010", "manylinux2014", "linux")
    ]
    interpreter = f"cp{numbers[0]}{numbers[1]}"
    exact = cpython_tags(numbers, platforms=platforms)
    return frozenset((*exact, *compatible_tags(numbers, interpreter, platforms)))


def needed(more: Iterable[str] = ()) -> dict[str, dict[Place, set[str]]]:
    """Packages that heldout with all its extras needs, and ``more`` need: what each needs in which place."""
    found: dict[str, dict[Place, set[str]]] = {}
    for place in PLACES:
        facts = environment(place)
        waiting = [Requirement(line) for line in (*asked_for(EXTRAS), *more)]
        done: dict[str, set[str]] = {}  # extras of packages
        while waiting:
            wanted = waiting.pop()
            name = plain(wanted.name)
            found.setdefault(name, {}).setdefault(place, set())
            seen = done.setdefault(name, set())
            for extra in {"", *wanted.extras} - seen:
                seen.add(extra)
                for line in _requires(name):
                    part = Requirement(line)
                    if part.marker is None or part.marker.evaluate({**facts, "extra": extra}):
                        found[name][place].add(plain(part.name))
                        waiting.append(part)
    return found


@functools.cache
def _requires(name: str) -> list[str]:
    """From the metadata of what is installed; else of a wheel of the version that is pinned."""
    try:
        return distribution(name).requires or []
    except PackageNotFoundError:
        pin = pins_before().get(name)
    for link, _ in links(name) if pin else ():
        if link.endswith(".whl") and parse_wheel_filename(_file(link))[1] == Version(str(pin)):
            with zipfile.ZipFile(io.BytesIO(_read(link))) as wheel:
                (facts,) = (
                    part for part in wheel.namelist() if part.endswith(".dist-info/METADATA")
                )
                return message_from_bytes(wheel.read(facts)).get_all("Requires-Dist", [])
    return []


@functools.cache
def pins_before() -> dict[str, str]:
    """The versions that constraints.txt has."""
    known = re.findall(r"^([\w.-]+)==([^ \n]+)", TARGET.read_text(encoding="utf-8"), re.M)
    return {plain(name): pin for name, pin in known}


def versions(names: list[str]) -> dict[str, str]:
    """The version that is installed of each, without the part that names a build; else the pin it has."""
    pins = pins_before()
    ranges = {
        plain(wanted.name): wanted.specifier for wanted in map(Requirement, asked_for(EXTRAS))
    }
    chosen = {}
    for name in names:
        known = [pins[name]] if name in pins else []
        with contextlib.suppress(PackageNotFoundError):
            known.insert(0, Version(distribution(name).version).public)
        fitting = [pin for pin in known if pin in ranges.get(name, SpecifierSet())]
        if not fitting:
            sys.exit(
                f"{name}{ranges.get(name, '')} is needed, and {' and '.join(known) or 'none'} known: install one, or "
                f"give constraints.txt a line {name}==VERSION if only another machine needs it"
            )
        chosen[name] = fitting[0]
    return chosen


def weights() -> str:
    """As sha256sum writes it: the files of installed packages that heldout loads."""
    known = [line.split("  ", 1)[1] for line in WEIGHTS.read_text(encoding="utf-8").splitlines()]
    digests = [hashlib.sha256(_installed(name).read_bytes()).hexdigest() for name in known]
    return "".join(f"{digest}  {name}\n" for digest, name in zip(digests, known, strict=True))


def _installed(name: str) -> Path:
    package, _, below = name.partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"{package}, whose weights {WEIGHTS.name} names, is not installed here")
    return Path(spec.submodule_search_locations[0]) / below


@functools.cache
def index() -> str:
    """Where pip looks: what it is configured to, or its own default."""
    from pip._internal.configuration import Configuration
    from pip._internal.models.index import PyPI

    settings = Configuration(isolated=False)
    settings.load()
    known = {key.rpartition(".")[2]: value for key, value in settings.items()}
    return str(known.get("index-url", PyPI.simple_url)).rstrip("/")


@functools.cache
def links(name: str) -> list[tuple[str, str]]:
    """Where the index has files of a package, and their SHA-256."""
    page = f"{index()}/{name}/"
    found = _LINK.findall(_read(page).decode())
    return [(urllib.parse.urljoin(page, html.unescape(link)), digest) for link, digest in found]


def _file(link: str) -> str:
    return urllib.parse.unquote(link.rpartition("/")[2])


@dataclass
class Files:
    """SHA-256 of a version's files, and with what it is built where there is no wheel."""

    digests: list[str]
    builders: list[str] = field(default_factory=list)


def files(name: str, version: str, places: set[Place]) -> Files:
    """The wheels for these places; the source, too, where one of them has no wheel."""
    wheels, sources = dict[str, frozenset[Tag]](), dict[str, str]()
    for link, digest in links(name):
        file = _file(link)
        try:
            if file.endswith(".whl"):
                _, found, _, marks = parse_wheel_filename(file)
                if found == Version(version):
                    wheels[digest] = marks
            elif parse_sdist_filename(file)[1] == Version(version):
                sources[digest] = link
        except (InvalidWheelFilename, InvalidSdistFilename):
            continue  # of a time before names were settled
    fitting = {
        here: {known for known, marks in wheels.items() if marks & tags(here)} for here in places
    }
    without = [here for here, digests in fitting.items() if not digests]
    if not without:
        return Files(sorted(set[str]().union(*fitting.values())))
    if not sources:
        sys.exit(f"{name} {version}: the index has no file of it for {without}")
    builders = {line for link in sources.values() for line in _build_requires(_read(link))}
    return Files(sorted({*sources}.union(*fitting.values())), sorted(builders))


def _read(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=60) as page:
        body: bytes = page.read()
    return body


def _build_requires(source: bytes) -> list[str]:
    """What pyproject.toml asks for; setuptools where there is none."""
    with tarfile.open(fileobj=io.BytesIO(source)) as archive:
        for name in archive.getnames():
            if name.count("/") == 1 and name.endswith("/pyproject.toml"):
                facts = tomllib.loads(archive.extractfile(name).read().decode())  # type: ignore[union-attr]
                return [*facts.get("build-system", {}).get("requires", ["setuptools"])]
    return ["setuptools"]


def marker(places: set[Place]) -> str:
    """Where a package is needed, as pip reads it; empty if everywhere."""
    pythons, machines = ({place[part] for place in places} for part in (0, 1))
    if places != set(product(pythons, machines)):
        raise AssertionError(f"no marker for {places}")
    parts = [("python_version", pythons, PYTHONS), ("platform_machine", machines, MACHINES)]
    told = [
        f"{name} == '{value}'"
        for name, have, everything in parts
        if have != {*everything}
        for value in have
    ]
    return f" ; {' and '.join(told)}" if told else ""


def lines() -> Iterator[str]:
    builders = set[str]()
    while True:  # until nothing is built with what is not among them
        found = needed(sorted(builders))
        pins = versions(sorted(found))
        with ThreadPoolExecutor(8) as threads:
            read = threads.map(files, pins, pins.values(), (set(found[name]) for name in pins))
            known = dict(zip(pins, read, strict=True))
        asked = {line for of in known.values() for line in of.builders}
        if asked <= builders:
            break
        builders |= asked
    for name, of in known.items():
        head = f"{name}=={pins[name]}{marker({*found[name]})}"
        yield " \\\n    --hash=sha256:".join([head, *of.digests])
        if needs := sorted(set[str]().union(*found[name].values())):
            yield f"    # needs {' '.join(needs)}"
        if of.builders:
            yield f"    # is built with {' '.join(sorted(plain(Requirement(line).name) for line in of.builders))}"


if __name__ == "__main__":
    head = HEAD.format(pythons=" and ".join(PYTHONS), machines=" and ".join(MACHINES))
    WEIGHTS.write_text(weights(), encoding="utf-8")
    TARGET.write_text("\n".join([head, *lines()]) + "\n", encoding="utf-8")
