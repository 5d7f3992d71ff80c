"""The house: a room imports only from rooms below it, and nothing names one person's machine."""

from __future__ import annotations

import ast
import functools
import gc
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import house

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "heldout"
# Top to bottom, as in docs/architecture.md.
ROOMS = [
    "cli",
    "audit",
    "lab",
    "report",
    "review",
    "verdict",
    "detect",
    "evaluate",
    "train",
    "synth",
    "twin",
    "cure",
    "evidence",
    "overlap",
    "model",
    "scenes",
    "corpus",
    "benchmark",
    "engine",
    "image",
    "remote",
    "store",
    "stats",
]
LEAVES = {"documents", "errors", "lazy", "settings", "weights"}  # importable from everywhere


@pytest.fixture(scope="module", autouse=True)
def _without_collection() -> Iterator[None]:
    """Syntax trees hold no cycles, and collecting garbage among millions of nodes takes most of the time."""
    gc.disable()
    yield
    gc.enable()


class Parsed(NamedTuple):
    """What the tests below look at in a file: parsing all files again for each takes most of their time."""

    imported: tuple[str, ...]  # modules by "import"
    entered: tuple[str, ...]  # modules by "from"
    options: tuple[tuple[int, str], ...]  # lines and options that texts name
    classes: tuple[str, ...]  # public ones
    openings: tuple[tuple[int, str], ...]  # lines and calls that open or remove files


@functools.cache
def _parsed(path: Path) -> Parsed:
    tree = ast.parse(path.read_text())
    nodes = house.nodes(tree)
    imports = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    entered = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    named = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
    public = tuple(name for name in named if not name.startswith("_"))
    calls = [(node.lineno, ast.unparse(node)) for node in nodes if _opens(node)]
    return Parsed(
        tuple(imports), tuple(entered), tuple(house.option_texts(tree)), public, tuple(calls)
    )


_OPENERS = "open read_text read_bytes write_text write_bytes unlink rmtree ParquetFile read_parquet scan_parquet"


def _opens(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    name = getattr(called, "attr", getattr(called, "id", ""))
    of_parquet = ast.unparse(called).startswith("pq.") and name.startswith("read_")
    return of_parquet or name in _OPENERS.split()


def _imports(path: Path) -> set[str]:
    """Rooms of ours that a file imports, wherever in the file it does."""
    names = [name.split(".") for name in (*_parsed(path).imported, *_parsed(path).entered)]
    return {parts[1] for parts in names if parts[0] == "heldout" and len(parts) > 1}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_rooms_below_it(room: str) -> None:
    allowed = {room, *ROOMS[ROOMS.index(room) + 1 :], *LEAVES}
    if room == "stats":
        allowed = {"stats", "lazy"}
    files = sorted((SOURCE / room).rglob("*.py"))
    assert files
    for path in files:
        above = _imports(path) - allowed
        assert not above, f"{path.relative_to(SOURCE)} imports from {', '.join(sorted(above))}"


def test_a_room_is_entered_through_its_door() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        for module in _parsed(path).entered:
            parts = module.split(".")
            if (
                parts[0] == "heldout"
                and len(parts) > 2
                and parts[1] in set(ROOMS) - {place.parts[0]}
            ):
                pytest.fail(f"{place} imports {module}: use heldout.{parts[1]}")


# Modules that read what anybody may have written without limits, and the files that may use them.
UNLIMITED = {
    "yaml": {"documents.py", "report/export/catalogues.py", "train/_verl.py"},  # the last two write
    "xml.parsers": {"documents.py"},
    "xml.etree": {
        "documents.py",
        "model/prediction_files.py",  # a name for types
        "synth/ingest/_jats.py",
        "cure/gate.py",  # writes
    },
}
READS = re.compile(
    r"\b(yaml\.\w*(load|Loader)|(ET|ElementTree)\.(i?parse|fromstring|XML)|XMLParser)\b"
)


def test_documents_are_read_within_limits() -> None:
    """YAML and XML by anyone go through ``heldout.documents``."""
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        for module in (*_parsed(path).imported, *_parsed(path).entered):
            for name, users in UNLIMITED.items():
                known = module != name and not module.startswith(f"{name}.")
                assert known or place in users, f"{place} imports {module}: use heldout.documents"
        if place != "documents.py":
            assert not READS.search(path.read_text()), f"{place}: use heldout.documents"


def test_every_import_names_something_that_is_there() -> None:
    assert not list(house.broken_imports(ROOT))


def test_every_name_of_a_door_is_needed_outside_of_its_room() -> None:
    assert not list(house.unused_exports(ROOT))


# Folders of modules of one kind that a registry of their room lists.
FAMILIES = {
    "benchmark": {"check", "readers", "writers"},
    "corpus": {""},
    "detect": {"", "behaviour"},
    "report": {"export", "figures"},
    "twin": {""},
    "verdict": {"controls", ""},
}


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "cli"])
def test_a_module_that_only_its_room_uses_starts_with_an_underscore(room: str) -> None:
    door = (SOURCE / room / "__init__.py").read_text()
    shown = set(re.findall(r"from heldout\.([\w.]+) import", door))
    for path in sorted((SOURCE / room).rglob("*.py")):
        place = path.relative_to(SOURCE).with_suffix("")
        folder = "/".join(place.parts[1:-1])
        if path.name.startswith("_") or folder in FAMILIES.get(room, set()):
            continue
        assert ".".join(place.parts) in shown, f"{place}.py: no other room uses it"


def test_every_room_is_in_the_list() -> None:
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert rooms == set(ROOMS)


def test_the_walks_name_functions_that_are_there() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    walks = page.partition("## Three walks")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(?:[A-Z]\w+\.)?([a-z]\w+)`", walks)) - {"alpha", "heldout"}
    code = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    for name in named:
        assert re.search(rf"^ *def {name}\(", code, re.M), name


def test_the_formats_page_lists_every_reader_in_its_order() -> None:
    from heldout.benchmark.presets import PRESETS
    from heldout.benchmark.readers import readers
    from heldout.corpus import corpus_readers

    page = (ROOT / "docs/formats.md").read_text()
    benchmarks, corpora = page.split("## Corpora")
    assert re.findall(r"^\| `([\w-]+)` \|", benchmarks, re.M) == [r.name for r in readers()]
    assert set(re.findall(r"^\| `([\w-]+)` \|", corpora, re.M)) == {
        r.name for r in corpus_readers()
    }
    for preset in PRESETS:
        assert preset.name in benchmarks


def test_the_check_page_lists_every_rule() -> None:
    page = (ROOT / "docs/check.md").read_text()
    listed = {
        name
        for row in re.findall(r"^\| (`.*?) \|", page, re.M)
        for name in re.findall(r"`([\w-]+)`", row)
    }
    code = "".join(path.read_text() for path in (SOURCE / "benchmark/check").glob("*.py"))
    for rule in listed:
        # empty-question and no-questions are built from the field's name
        assert f'"{rule}"' in code or rule.split("-")[0] in ("empty", "no"), rule
    for rule in re.findall(r'problem\(\s*"([\w-]+)"', code):
        assert rule in listed, rule


def test_no_two_classes_have_one_name() -> None:
    names = Counter(name for path in SOURCE.rglob("*.py") for name in _parsed(path).classes)
    assert not [name for name, count in names.items() if count > 1]


# In these rooms all files are those of run folders, except in the files named here.
_OF_RUNS = ("store", "report", "review", "verdict", "evidence", "audit")
_OTHERS = {
    "audit/_recording.py": "any input, to compare its digest",
    "audit/costs.py": "prices of the user",
    "audit/demo.py": "what the demo made",
    "audit/init_file.py": "what lies in the user's folder",
    "audit/reader.py": "the audit file",
    "evidence/leak_labels.py": "a list of the user",
    "report/_pdf.py": "a page in a temporary folder",
    "report/_reproduce.py": "our own pages",
    "report/_summary_page.py": "a page that was just printed",
    "report/certainty.py": "our own measurements",
    "report/export/formats.py": "what was just exported",
    "report/robustness.py": "our own measurements",
    "report/runs_page.py": "what a browser may be shown, resolved",
    "review/_pictures.py": "pictures of corpora",
    "review/server.py": "our own page",
    "store/files.py": "the function that opens them",
    "store/partitions.py": "temporary files",
    "store/schema.py": "what that function opened",
    "store/sorting.py": "temporary files",
    "store/stage.py": "a folder that was looked at before",
    "verdict/measured.py": "measurements of the user, and our own",
    "verdict/published_map.py": "published tables",
}
_NO_FILES = re.compile(
    r"(Run|Album|webbrowser|Image|tarfile|\w*\.?ref|image)\.open\(|.*\.open\(\)$"
)
_NAMES_A_RUN = re.compile(r"\brun\.path\b|\btable_path\(|\blog_path\(|\bmanifest_path\b")


def test_files_of_runs_are_opened_by_the_store_alone() -> None:
    """``opened`` and what rests on it: they follow no links, and verify what is recorded."""
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        for line, call in _parsed(path).openings:
            if _NO_FILES.match(call):
                continue
            room = place.parts[0] in _OF_RUNS and str(place) not in _OTHERS
            assert not (room or _NAMES_A_RUN.search(call)), f"{place}:{line}: {call}"


def test_below_cli_options_occur_in_whole_commands_alone() -> None:
    """The library speaks of settings; the command line turns them into options."""
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        if place.parts[0] == "cli":
            continue
        for line, flag in _parsed(path).options:
            pytest.fail(f"{place}:{line} names {flag}: name the setting, or the whole command")


def test_an_option_counts_where_no_command_stands_before_it() -> None:
    texts = ["set --alpha", "'ray start --head' there", "heldout ask --variants x, or --alpha"]
    flags = [[flag for _, flag in house.option_texts(ast.parse(repr(text)))] for text in texts]
    assert flags == [["--alpha"], [], []]
    assert not list(house.option_texts(ast.parse("f'heldout gate {run} --out {folder}'")))


def test_no_machine_is_named_in_the_tree() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout")
    machine = re.compile(r"(?<![\w.])/(?:work|root|home/\w+)/")
    for name in tracked:
        path = ROOT / name
        if (
            path.suffix in {".py", ".md", ".toml", ".txt", ".cff", ".j2", ".yaml"}
            or not path.suffix
        ):
            if name == "tests/test_house.py" or not path.is_file():
                continue
            hit = machine.search(path.read_text(errors="replace"))
            assert hit is None, f"{name}: {hit[0]}"


STARTS = re.compile(
    r"^\s*(?:from|import) (?:subprocess|multiprocessing|runpy|pty)\b|\bProcessPoolExecutor\b|\bsys\.executable\b"
    r"|\bos\.(?:system|popen|exec|spawn|posix_spawn|fork)|\bray\.init\(",
    re.M,
)
STARTERS = {  # files that start processes: those that start Python do so in isolated()
    "engine/local.py": {"ensure_running", "start"},
    "engine/ray_engine.py": {"init"},
    "engine/_worker_main.py": set(),  # is what they run
    "lab/models/pool.py": set(),  # forks, so that nothing is looked for again
    "model/local/templates.py": {"Popen"},
    "report/_pdf.py": set(),  # a browser
}


def test_python_is_started_in_one_way() -> None:
    """A process that is started otherwise would import what lies in the working directory."""
    found = {path for path in SOURCE.rglob("*.py") if STARTS.search(path.read_text())}
    assert {str(path.relative_to(SOURCE)) for path in found} == {*STARTERS}
    for name, calls in STARTERS.items():
        tree = ast.parse((SOURCE / name).read_text())
        within = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.With)
            and any(ast.unparse(item.context_expr) == "isolated()" for item in node.items)
        ]
        isolated = {id(node) for block in within for node in ast.walk(block)}
        started = {
            node.func.attr: id(node) in isolated
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in calls
        }
        assert started == dict.fromkeys(calls, True), name


def test_the_pinned_torch_pair_works_together() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed on this platform's suite")
    torchvision = pytest.importorskip("torchvision")
    constraints = (ROOT / "constraints.txt").read_text()
    pins = dict(re.findall(r"^(torch|torchvision)==(\S+)", constraints, re.M))
    assert torch.__version__.split("+")[0] == pins["torch"]
    assert torchvision.__version__.split("+")[0] == pins["torchvision"]
    # A mismatched pair fails here: the compiled operator is not registered.
    boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.1, 0.0, 2.0, 2.0], [5.0, 5.0, 6.0, 6.0]])
    kept = torchvision.ops.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5)
    assert kept.tolist() == [0, 2]


def test_every_test_file_has_a_name_of_its_own() -> None:
    """pytest takes two files of one name for one module."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
]
NAMED_FILE = re.compile(r"(?<![\w/.-])(?:tests|bench|src|docs|examples)/[\w./*-]*\w")
NAMED_MODULE = re.compile(rf"(?<![\w/.-])(?:{'|'.join(ROOMS)})/[\w/]+\.py\b")
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in NAMED_FILE.findall(text):
        if not name.startswith("bench/out"):  # what a bench writes
            assert any(ROOT.glob(name)), name
    for name in NAMED_MODULE.findall(text):
        assert (SOURCE / name).exists(), name
    for name in LINK.findall(text):
        assert (page.parent / name).exists(), name
