"""Filter: which twins are kept, by the verifier, by people, or by both, and whether the two agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heldout.benchmark import Benchmark
from heldout.errors import InputError
from heldout.model import Asker, ReplySet
from heldout.stats import Interval, cluster_rate_interval, cohen_kappa
from heldout.store import Dropped, Run, write_atomic, write_json
from heldout.twin.ledger import (
    FILTER,
    KEEP,
    REJECT,
    RENDER,
    TIE,
    finished,
    folder,
    read_stage,
    said_by_people,
    write_stage,
    write_twins,
)
from heldout.twin.verify import NOT_ASKED, UNREAD, TwinVerdict, verify

# Do the verifier and people keep the same twins? Raw agreement and Cohen's kappa, clustered by picture.


@dataclass(frozen=True)
class TwinAgreement:
    """Cells: first the verifier, then people. ``kappa`` is None where chance alone would agree."""

    both_keep: int
    only_verifier_keeps: int
    only_people_keep: int
    both_reject: int
    clusters: int
    raw: float
    raw_interval: Interval
    kappa: float | None
    kappa_interval: Interval | None

    @property
    def n(self) -> int:
        return self.both_keep + self.only_verifier_keeps + self.only_people_keep + self.both_reject

    def as_json(self) -> dict[str, Any]:
        intervals = {
            name: None if interval is None else interval._asdict()
            for name, interval in (
                ("raw_interval", self.raw_interval),
                ("kappa_interval", self.kappa_interval),
            )
        }
        return {"n": self.n, **vars(self), **intervals}


def agreement(
    verifier: Sequence[bool], people: Sequence[bool], clusters: Sequence[str]
) -> TwinAgreement | None:
    """``True`` is keep; None if no person judged the same twin as the verifier."""
    if not verifier:
        return None
    first, second = np.asarray(verifier, bool), np.asarray(people, bool)
    cells = (first & second, first & ~second, ~first & second, ~first & ~second)
    both, verifier_only, people_only, neither = (int(cell.sum()) for cell in cells)
    ratings = [
        {"people": float(b), "verifier": float(a)} for a, b in zip(first, second, strict=True)
    ]
    kappa = cohen_kappa(ratings, clusters)
    same = (first == second).astype(float)
    raw = cluster_rate_interval(same, clusters)
    return TwinAgreement(
        both,
        verifier_only,
        people_only,
        neither,
        len(set(clusters)),
        float(same.mean()),
        raw,
        kappa.value,
        kappa.interval,
    )


STAGE = "twin filter"
POLICIES = ("verifier", "people", "both", "either")
UNFILTERED = "unfiltered"


@dataclass(frozen=True)
class FilterResult:
    policy: str
    judged: int
    kept: int
    agreement: TwinAgreement | None
    asked: ReplySet


def filter_twins(
    run: Run,
    benchmark: Benchmark,
    verifier: Asker | None,
    *,
    policy: str | None = None,
    unfiltered: bool = False,
    quiet: bool = False,
) -> FilterResult:
    """Without a verifier, verdicts of an earlier call are kept: the pictures are still the same."""
    rendered = read_stage(run, RENDER)
    people = said_by_people(run)
    asked = ReplySet()
    if verifier is not None:
        verdicts, asked = verify(run, rendered, verifier, quiet=quiet)
    else:
        verdicts = _earlier(run)
    chosen = choose_policy(run, policy, unfiltered, verdicts, people)
    rows: list[dict[str, Any]] = []
    dropped: list[Dropped] = []
    for row in rendered:
        name = row["id"]
        verdict, judged = verdicts.get(name), people.get(name)
        kept, reason, detail = _decide(chosen, verdict, judged, veto=policy is None)
        rows.append(
            {
                "id": name,
                "verifier": verdict.verdict if verdict else None,
                "verifier_reason": verdict.reason if verdict else None,
                "people": judged,
                "kept": kept,
                "policy": chosen,
            }
        )
        if not kept:
            dropped.append(Dropped(STAGE, name, reason, detail))
    write_stage(run, FILTER, rows, dropped)
    write_twins(run)
    kept_ids = [row["id"] for row in rows if row["kept"]]
    write_atomic(folder(run) / "kept.txt", "".join(f"{identifier}\n" for identifier in kept_ids))
    agreed = _agreement(benchmark, verdicts, people, [row["id"] for row in rendered])
    if agreed is not None:
        write_json(folder(run) / "agreement.json", agreed.as_json())
    return FilterResult(chosen, len(rows), len(kept_ids), agreed, asked)


def choose_policy(
    run: Run,
    policy: str | None,
    unfiltered: bool,
    verdicts: Mapping[str, Any] | bool,
    people: Mapping[str, str],
) -> str:
    """The policy that decides; ``verdicts`` is true if there are verdicts of a verifier."""
    if unfiltered:
        return UNFILTERED
    if policy is None:
        policy = "verifier" if verdicts or not people else "people"
    nobody = policy == "either" and not people
    if (policy in ("verifier", "both") or nobody) and not verdicts:
        raise InputError(
            "the twins have not been judged. Give the setting verifier; or stop at render (the setting last), "
            f"judge them with 'heldout review {run.path} --kind twins' and come back with people in the "
            "setting keep; or publish them as they are with the setting unfiltered"
        )
    if policy in ("people", "both") and not people:
        raise InputError(
            f"keep {policy}: no person has judged a twin of {run.path} yet. Stop at render (the setting "
            f"last) and judge them with 'heldout review {run.path} --kind twins'"
        )
    return policy


def earlier_verdicts(run: Run) -> bool:
    return (
        any(row["verifier"] for row in read_stage(run, FILTER)) if finished(run, FILTER) else False
    )


def _earlier(run: Run) -> dict[str, TwinVerdict]:
    if not finished(run, FILTER):
        return {}
    return {
        row["id"]: TwinVerdict(row["verifier"], row["verifier_reason"])
        for row in read_stage(run, FILTER)
        if row["verifier"]
    }


def _decide(
    policy: str, verdict: TwinVerdict | None, judgement: str | None, *, veto: bool
) -> tuple[bool, str, str]:
    """Kept or not, and the reason why not."""
    machine, person = verdict is not None and verdict.verdict == KEEP, judgement == KEEP
    kept = {
        UNFILTERED: True,
        "verifier": machine,
        "people": person,
        "both": machine and person,
        "either": machine or person,
    }[policy]
    if kept and veto and judgement == REJECT:
        # Without a policy, what a person rejected stays rejected.
        return False, "rejected by people", f"verifier: {verdict.verdict if verdict else 'none'}"
    if kept:
        return True, "", ""
    of_machine, detail = _against(verdict)
    of_people = {
        REJECT: "rejected by people",
        TIE: "people are divided",
        None: "not judged by people",
    }.get(judgement, "")
    if policy == "people" or (policy == "both" and machine):
        return False, of_people, f"verifier: {verdict.verdict if verdict else 'none'}"
    if policy == "either" and judgement is not None:
        return False, f"{of_machine}; {of_people}", detail
    return False, of_machine, detail


def _against(verdict: TwinVerdict | None) -> tuple[str, str]:
    if verdict is None:
        return "not seen by the verifier", ""
    reason = {
        REJECT: "rejected by the verifier",
        UNREAD: "the verifier gave no verdict",
        NOT_ASKED: "the verifier was not reached",
    }.get(verdict.verdict, "")
    return reason, " ".join(verdict.reason.split())[-300:]


def _agreement(
    benchmark: Benchmark,
    verdicts: Mapping[str, TwinVerdict],
    people: Mapping[str, str],
    ids: list[str],
) -> TwinAgreement | None:
    clusters = dict(zip((example.id for example in benchmark), benchmark.clusters, strict=True))
    both = [
        name
        for name in ids
        if name in people and name in verdicts and verdicts[name].verdict in (KEEP, REJECT)
    ]
    return agreement(
        [verdicts[name].verdict == KEEP for name in both],
        [people[name] == KEEP for name in both],
        [clusters[name] for name in both],
    )
