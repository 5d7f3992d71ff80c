"""Install heldout with the exact files that constraints.txt names: `python -I .ci/install.py vision,text`.

Every file is held to its SHA-256, what a package needs is read from constraints.txt, and nothing is built with
anything that is not in it. PIP_* variables reach pip. It runs before anything is installed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12")
MACHINES = ("x86_64", "aarch64")
_ENTRY = re.compile(r"^([\w.-]+)==.*(?:\n    .+)*", re.M)
_NEEDS, _BUILDS = (
    re.compile(rf"^    # {words} (.+)$", re.M) for words in ("needs", "is built with")
)
_PART = re.compile(r"([\w.-]+)\s*(?:\[([\w,\s-]+)\])?")


def plain(name: str) -> str:
    """A package's name as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for(extras: Iterable[str]) -> list[str]:
    """Requirements of heldout with these extras, and of its build."""
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    offered, found = facts["project"]["optional-dependencies"], []
    waiting, seen = [*extras], set[str]()
    while waiting:
        extra = waiting.pop()
        if extra in seen:
            continue
        seen.add(extra)
        if extra not in offered:
            sys.exit(f"heldout has no extra '{extra}'; there are {', '.join(offered)}")
        for line in offered[extra]:
            if line.startswith("heldout["):
                waiting += _PART.match(line)[2].split(",")  # type: ignore[index]
            else:
                found.append(line)
    return [*facts["build-system"]["requires"], *facts["project"]["dependencies"], *found]


def names(extras: Iterable[str]) -> list[str]:
    """Packages that heldout asks for itself."""
    return [plain(_PART.match(line)[1]) for line in asked_for(extras)]  # type: ignore[index]


def pinned(packages: Iterable[str], text: str, without: Sequence[str] = ()) -> dict[str, str]:
    """The entries of constraints.txt for these packages and all that they need, by name.

    Not those ``without`` which it goes, nor what they alone need.
    """
    entries = {plain(entry[1]): entry[0] for entry in _ENTRY.finditer(text)}
    waiting, chosen = [*packages], dict[str, str]()
    while waiting:
        name = waiting.pop()
        if name in chosen or name in without:
            continue
        if name not in entries:
            sys.exit(f"constraints.txt has no '{name}': write it anew with python .ci/lock.py")
        chosen[name] = entries[name]
        waiting += _named(_NEEDS, entries[name])
    return chosen


def _named(words: re.Pattern[str], entry: str) -> list[str]:
    return " ".join(words.findall(entry)).split()


def install(
    what: str | Path,
    extras: Sequence[str],
    *,
    editable: bool,
    python: str,
    without: Sequence[str] = (),
) -> None:
    """Install ``what``, a folder or a wheel of heldout, for the program ``python``."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pip = [python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-deps", "--no-build-isolation"]
    wanted = pinned(names(extras), text, without)
    # What builds comes first: with it the packages are built that have no wheel.
    builders = {name for entry in wanted.values() for name in _named(_BUILDS, entry)}
    with tempfile.TemporaryDirectory() as scratch:
        for chosen in (pinned(builders, text), wanted):
            listed = Path(scratch) / "files.txt"
            listed.write_text("".join(f"{entry}\n" for entry in chosen.values()), encoding="utf-8")
            if chosen:
                _run([*pip, "--require-hashes", "-r", str(listed)])
    _run([*pip, *(["--editable"] if editable else []), str(what)])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extras", nargs="?", default="", help="with commas between")
    parser.add_argument("--editable", action="store_true")
    parser.add_argument(
        "--without", default="", help="packages that are there, with commas between"
    )
    asked = parser.parse_args()
    here = "{}.{}".format(*sys.version_info)
    if here not in PYTHONS or not sys.platform.startswith("linux"):
        sys.exit(
            f"constraints.txt names files for Python {' and '.join(PYTHONS)} on Linux; this is Python {here} on "
            f"{sys.platform}. Take one of those, or install without it: pip install {ROOT}"
        )
    extras, without = (
        [name.strip() for name in text.split(",") if name.strip()]
        for text in (asked.extras, asked.without)
    )
    install(ROOT, extras, editable=asked.editable, python=sys.executable, without=without)


if __name__ == "__main__":
    main()
