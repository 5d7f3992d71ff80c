"""The quality table: what it counts, when it says that two commits differ, and that half 1 settles nothing."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path

import pytest

import ablate
import quality
import quality_collections
import quality_figures as figures
import quality_size as size
import quality_verdicts
import quality_words as words
from quality_figures import Figure, share

ROOT = Path(__file__).resolve().parents[2]
SHARED = quality.shared_folder()


def searched(found: dict[str, set[str]]) -> words.Search:
    frozen = {item: frozenset(texts) for item, texts in found.items()}
    return words.Search(Path(), frozen, "qualified", 1.0)


def test_an_item_is_right_only_by_its_own_rewording() -> None:
    truth = words.Truth(
        dict.fromkeys(("a", "b", "c", "d"), 1) | {"settles": 0},
        {"a": frozenset({"ra"}), "b": frozenset({"rb"}), "settles": frozenset({"rs"})},
    )
    said = searched({"a": {"ra", "x"}, "b": {"x"}, "c": {"x"}, "settles": {"x"}})
    found = {figure.name: figure for figure in words.figures_of("set", said, truth, 1)}
    assert found["recall"].value == 0.5 and found["recall"].of == 2  # half 0 is not counted
    assert found["precision"].value == pytest.approx(1 / 3)
    assert found["wrong items"].value == 0.5 and found["wrong items"].better == figures.LOWER


def test_the_interval_is_exact() -> None:
    assert figures.interval(0, 10) == (0.0, pytest.approx(0.3085, abs=1e-4))
    assert figures.interval(9, 10) == (
        pytest.approx(0.5550, abs=1e-4),
        pytest.approx(0.9975, abs=1e-4),
    )


def test_outcomes_survive_storing() -> None:
    outcomes = [False, False, True, False, True]
    figure = share("words", "set", "recall", outcomes)
    again = Figure.from_json(json.loads(json.dumps(figure.as_json())))
    assert figures.outcomes_of(again) == outcomes and again == figure
    nothing = share("words", "set", "recall", [False] * 3)
    assert Figure.from_json(nothing.as_json()) == nothing


def test_noise_is_told_on_the_same_items() -> None:
    """Six items better and none worse is no chance (p = .03); six and four are (p = .75)."""
    base = [True] * 80 + [False] * 20
    gained = [True] * 86 + [False] * 14
    mixed = [False] * 4 + [True] * 82 + [False] * 14
    rows = {name: share("words", "set", "recall", bits) for name, bits in
            (("base", base), ("gained", gained), ("mixed", mixed))}  # fmt: skip
    assert figures.difference(rows["gained"], rows["base"], True)[2] == "better"
    assert figures.difference(rows["base"], rows["gained"], True)[2] == "worse"
    assert figures.difference(rows["mixed"], rows["base"], True)[2] == ""


def test_seconds_are_compared_on_one_kind_of_machine() -> None:
    now, then = (Figure("cost", "demo", "CPU", value, "s", figures.LOWER) for value in (2.0, 1.0))
    assert figures.difference(now, then, same_machine=True)[2] == "worse"
    assert figures.difference(now, then, same_machine=False)[2] == ""
    assert figures.difference(then, then, same_machine=True)[2] == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--section", "size", "--option=--text-fdr=.2"],
        ["--section", "size", "--half", "0", "--store"],
    ],
)
def test_nothing_is_settled_on_half_1_or_stored_of_half_0(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        quality.main(arguments)
    assert ended.value.code == 2
    assert "half" in capsys.readouterr().err


def test_half_1_of_the_shared_sets_is_the_half_that_is_reported() -> None:
    path = SHARED / "quality/words/mmlu_reworded/truth.tsv"
    if not path.exists():
        pytest.skip("no ../shared/quality")
    truth = words.read_truth(path)
    assert {len(truth.items(half)) for half in (0, 1)} == {258, 225}
    assert len(truth.leaked) == 239


def test_the_pages_are_what_is_stored() -> None:
    stored = quality.read_stored()
    assert quality.PAGE.read_text("utf-8") == quality.page_of(stored)
    assert set(quality.SECTIONS) <= set(stored["sections"])
    kept = json.loads(ablate.STORED.read_text("utf-8"))
    assert ablate.PAGE.read_text("utf-8") == ablate.page_of(kept)
    assert set(kept) <= set(ablate.PARTS)


def test_a_part_that_is_measured_again_replaces_its_section_alone() -> None:
    old = {
        "sections": {"words": {"commit": "old"}, "size": {"commit": "old"}},
        "figures": [
            Figure("words", "a", "recall", 1.0).as_json(),
            Figure("size", "src", "lines", 9.0).as_json(),
        ],
    }
    now = quality.merged(old, [Figure("size", "src", "lines", 7.0)], ["size"], 1.0)
    values = {figure.key: figure.value for figure in quality.stored_figures(now).values()}
    assert values == {("words", "a", "recall"): 1.0, ("size", "src", "lines"): 7.0}
    assert now["sections"]["words"] == {"commit": "old"}


def test_what_counts_as_a_constant_a_pattern_and_a_word_list() -> None:
    source = """
LIMIT = 0.4
_SIZES = (1, 2, 3)
NAME = "x"
small = 3
HALF: float = 1 / 2
WORDS = "left right upper lower top bottom anterior posterior superior inferior medial".split()
FEW = ("red", "green")
ASKED = re.compile("name|list|count|describe|identify|state|give|find|compute|tell")
"""
    tree = ast.parse(source)
    assert list(size.constants(tree)) == ["LIMIT", "_SIZES", "HALF"]
    assert len(list(size.patterns(tree))) == 1
    assert len(list(size.word_lists(tree))) == 2


def test_the_commands_and_their_options_are_counted() -> None:
    commands, options = size.command_line()
    assert 15 < commands < options


def test_what_a_rule_is_worth_is_summed_up_by_group() -> None:
    def row(figure: str, mark: str, gained: int, on: float, off: float) -> ablate.Row:
        return {"switch": "group", "what": "does it", "set": "s", "figure": figure, "of": 9, "on": on,
                "off": off, "gained": gained, "lost": 0, "mark": mark}  # fmt: skip

    rows = [
        row("recall", "harms", 6, 0.1, 0.8),
        row("precision", "", 1, 1.0, 1.0),
        row("CPU", "", 0, 10, 5),
    ]
    lines = ablate.table(rows)
    assert lines[2] == "| group | does it | – | s: recall 0.100 → 0.800 | – | 1 | 0.50 |"
    assert ablate.table([row("recall", "", 0, 0.1, 0.1)])[-1] == "* group: does it. CPU: –"


def test_verdicts_are_asked_until_the_bound_is_told() -> None:
    clean = quality_verdicts.Case("c", "open_prior", "clean")
    power = quality_verdicts.Case("p", "leaked", "power")
    assert quality_verdicts.enough(clean, [True] * 20) == 20
    assert quality_verdicts.enough(clean, [False] * 40) == 40
    assert quality_verdicts.enough(clean, [True] + [False] * 39) == 80
    assert quality_verdicts.enough(power, [True] * 40) == 40


def test_a_copy_of_a_repository_runs_nothing(tmp_path: Path) -> None:
    """Attributes and filters that lie in the copy would run a program when its files are laid out."""
    work, out = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    git = ["git", "-C", str(work), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    (work / "a.csv").write_text("rows")
    subprocess.run([*git, "add", "a.csv"], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "one"], check=True)
    (work / ".git/info").mkdir(exist_ok=True)
    (work / ".git/info/attributes").write_text("*.csv filter=evil\n")
    ran = tmp_path / "ran"
    subprocess.run([*git, "config", "filter.evil.smudge", f"touch {ran}; cat"], check=True)
    head = [*git, "rev-parse", "HEAD"]
    commit = subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()
    quality_collections.lay_out(work / ".git", commit, ["*.csv"], out)
    assert (out / "a.csv").read_text() == "rows" and not ran.exists()
    with pytest.raises(SystemExit, match="has no commit"):
        quality_collections.lay_out(work / ".git", "a" * 40, ["*.csv"], out)
