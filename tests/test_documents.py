"""YAML that anybody may have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from heldout.documents import MOST_YAML, read_yaml
from heldout.errors import InputError

ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


def test_values_come_with_the_lines_they_stand_in(tmp_path: Path) -> None:
    value, lines = read_yaml(_written(tmp_path, "a: 1\nb:\n  - c\n  - d: 2024-99-99\n"))
    assert value == {"a": 1, "b": ["c", {"d": "2024-99-99"}]}
    assert lines["b", 1, "d"] == 4


def test_a_date_stays_a_text_and_other_loaders_are_left_alone(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    assert read_yaml(_written(tmp_path, "a: 2024-02-03"))[0] == {"a": "2024-02-03"}
    assert yaml.safe_load("2024-02-03").year == 2024


def _written(folder: Path, text: str) -> Path:
    (folder / "x.yaml").write_text(text)
    return folder / "x.yaml"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("a: [1\n", "line 2 is not YAML"),
        (ALIASES, "aliases unfold"),
        ("a: &a [*a]\n", "not YAML that can be read"),
        ("[" * 5000, "not YAML"),
        ("a: " + "9" * 100_000, "not YAML that can be read"),
        ("a: !!timestamp b\n", "not YAML that can be read"),
        ("a: !!bool b\n", "not YAML that can be read"),
        ("a: !!int ''\n", "not YAML that can be read"),
        ("a: !!python/object/apply:os.getcwd []\n", "line 1 is not YAML"),
        ("b: 1\na: {<<: {b: 1}}\n", "line 2: keys are not merged"),
        ("a: 1\na: 2\n", "line 2: the key 'a' is given in line 1"),
        ("? [a, b]\n: 1\n", "line 1: expected a text as a key"),
        ("x" * (MOST_YAML + 1), "larger than"),
        ("\0", "not YAML"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_file_and_line(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(InputError, match=says) as caught:
        read_yaml(_written(tmp_path, text))
    assert str(tmp_path / "x.yaml") in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"on: x\.yaml cannot be read: No such file"):
        read_yaml(tmp_path / "x.yaml", "on: x.yaml")
