"""What every engine promises: the same outcomes wherever the work runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import engine_tasks
import pytest

from heldout.engine import Engine, Kind, Outcome


def test_every_task_gives_its_value_exactly_once(engine: Engine) -> None:
    outcomes = list(engine.map(engine_tasks.square, range(50)))
    assert sorted(outcome.index for outcome in outcomes) == list(range(50))
    assert all(o.ok and o.task == o.index and o.value == o.index**2 for o in outcomes)


def test_ordered_outcomes_follow_the_tasks_though_the_first_is_slowest(engine: Engine) -> None:
    outcomes = engine.map(engine_tasks.slow_first, range(30), ordered=True)
    assert [outcome.value for outcome in outcomes] == list(range(30))


def test_a_task_that_raises_says_what_and_where_and_stops_nothing(engine: Engine) -> None:
    outcomes = list(engine.map(engine_tasks.fail_on_odd, range(6), ordered=True))
    assert [o.value for o in outcomes] == [0, None, 2, None, 4, None]
    assert [o.error for o in outcomes[1::2]] == [f"ValueError: {n} is odd" for n in (1, 3, 5)]
    assert all(o.ok for o in outcomes[::2])
    assert outcomes[1].traceback is not None
    assert "fail_on_odd" in outcomes[1].traceback


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (engine_tasks.leave, "SystemExit: 3"),
        (engine_tasks.raise_bad_message, "BadMessage: (its message cannot be printed)"),
    ],
)
def test_hostile_errors_are_errors_of_their_task(
    engine: Engine, function: object, error: str
) -> None:
    assert [o.error for o in engine.map(function, [0])] == [error]  # type: ignore[arg-type]


@pytest.mark.parametrize("ordered", [False, True])
def test_tasks_are_drawn_a_bounded_number_ahead(engine: Engine, ordered: bool) -> None:
    drawn = 0

    def tasks() -> Iterator[int]:
        nonlocal drawn
        for number in range(1_000_000):
            drawn += 1
            yield number

    outcomes = engine.map(engine_tasks.square, tasks(), ordered=ordered)
    for _ in range(5):
        next(outcomes)
    outcomes.close()
    assert drawn < 60


def test_kinds_of_tasks_take_turns_and_keep_their_own_places(engine: Engine) -> None:
    drawn = []

    def tasks(name: str, count: int) -> Iterator[int]:
        for number in range(count):
            drawn.append(name)
            yield number

    kinds = [
        Kind(engine_tasks.square, tasks("squares", 40)),
        Kind(engine_tasks.fail_on_odd, tasks("even", 10)),
    ]
    outcomes: dict[int, dict[int, Outcome[int, int]]] = {0: {}, 1: {}}
    for kind, outcome in engine.map_kinds(kinds):
        outcomes[kind][outcome.index] = outcome
    assert [outcomes[0][n].value for n in range(40)] == [n**2 for n in range(40)]
    assert [outcomes[1][n].value for n in range(10)] == [
        0,
        None,
        2,
        None,
        4,
        None,
        6,
        None,
        8,
        None,
    ]
    assert outcomes[1][3].task == 3 and outcomes[1][3].error == "ValueError: 3 is odd"
    # Neither waits until all of the other are drawn.
    assert drawn.index("even") < 20 and "squares" in drawn[drawn.index("even") :]


def test_no_tasks_give_no_outcomes(engine: Engine) -> None:
    assert list(engine.map(engine_tasks.square, [])) == []


def test_an_error_while_drawing_tasks_reaches_the_caller(engine: Engine) -> None:
    def tasks() -> Iterator[int]:
        yield 1
        raise LookupError("the shard list ends here")

    with pytest.raises(LookupError, match="the shard list ends here"):
        list(engine.map(engine_tasks.square, tasks()))


def test_a_map_may_feed_another(engine: Engine) -> None:
    first = engine.map(engine_tasks.square, range(8))
    second = engine.map(engine_tasks.square, (outcome.value for outcome in first))
    assert sorted(o.value or 0 for o in second) == [n**4 for n in range(8)]


@pytest.mark.timeout(60)
def test_closing_early_frees_the_workers_for_the_next_map(engine: Engine) -> None:
    outcomes = engine.map(engine_tasks.sleep_unless_first, range(100))
    assert next(outcomes).value == 0
    outcomes.close()
    assert sorted(o.value or 0 for o in engine.map(engine_tasks.square, range(4))) == [0, 1, 4, 9]


def test_large_tasks_and_values_pass_in_both_directions(engine: Engine) -> None:
    blocks = [bytes([n]) * 1_000_000 for n in range(12)]
    values = [o.value for o in engine.map(engine_tasks.double_bytes, blocks, ordered=True)]
    assert values == [block * 2 for block in blocks]


def test_what_cannot_be_pickled_is_an_error_of_its_task(engine: Engine) -> None:
    if getattr(engine, "workers", None) == 1:
        pytest.skip("nothing is pickled in this process")
    lock = threading.Lock()
    outcomes = list(engine.map(repr, [1, lock, 2], ordered=True))
    assert [outcome.value for outcome in outcomes] == ["1", None, "2"]
    assert "pickle" in (outcomes[1].error or "")
    [outcome] = engine.map(engine_tasks.unpicklable_value, [0])
    assert "pickle" in (outcome.error or "")


def test_a_closed_engine_refuses_work(engine: Engine) -> None:
    engine.close()
    with pytest.raises(RuntimeError, match="closed"):
        engine.map(engine_tasks.square, [1])
