"""Which models a server names in its replies is recorded, and told where they are several."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, cast

from heldout.model.endpoint import Connection, Endpoint
from heldout.model.endpoint.capabilities import Capabilities
from heldout.model.request import Request, Text
from heldout.model.scoring import MOST_NAMES, OTHERS, claim_model, note_named
from heldout.store import Run


class Changing:
    """A server that calls itself by another name every time."""

    count = 0

    def post(self, path: str, body: Any) -> Any:
        self.count += 1
        row = {"tokens": ["yes", "."], "token_logprobs": [-1.0, -1.0]}
        return {"model": f"version-{self.count}", "choices": [{"logprobs": row}]}


def test_answers_with_log_probabilities_are_counted_by_the_name_they_bring() -> None:
    class Can:
        class chat:  # noqa: N801
            works = False

        completions = images = chat

        class completions_work:  # noqa: N801
            works = True

    Can.completions = Can.completions_work  # type: ignore[assignment, misc]
    connection = cast(Connection, Changing())
    endpoint = Endpoint(connection, "asked", cast(Capabilities, Can))
    for name in "ab":
        endpoint.tell(Request(name, (Text("yes", scored=True),), turn=False))
    assert endpoint.named == {"version-1": 1, "version-2": 1}


def test_scores_of_earlier_commands_count_and_answers_are_counted_anew(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", seed=0)
    with run.writing():
        claim_model(run, "m", {"backend": "endpoint"})
        assert note_named(run, "m", "scores", {"": 5}) == []
        assert "named" not in run.manifest()["models"]["m"]
        assert note_named(run, "m", "scores", {"a": 5}, more=True) == []
        assert note_named(run, "m", "scores", {"a": 2, "": 1}, more=True) == []
        assert note_named(run, "m", "answers", {"a": 5}) == []
        (told,) = note_named(run, "m", "answers", {"b": 5})
        assert "named 2 models in its replies: a (7), b (5)" in told
        known = run.manifest()["models"]["m"]
        assert known["named"] == {"scores": {"a": 7}, "answers": {"b": 5}}
        assert known["backend"] == "endpoint"
        many = Counter({f"version-{number}": 1 for number in range(3 * MOST_NAMES)})
        (told,) = note_named(run, "m", "answers", many)
        kept = run.manifest()["models"]["m"]["named"]["answers"]
        assert len(kept) == MOST_NAMES + 1
        assert kept[OTHERS] == 2 * MOST_NAMES
