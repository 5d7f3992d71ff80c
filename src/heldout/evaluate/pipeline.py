"""evaluate: every model of the settings on every benchmark of a suite, into one run folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from heldout.engine import open_engine
from heldout.errors import InputError
from heldout.evaluate._answers import (
    CellAnswers,
    EngineAsker,
    LocalModelSpec,
    ask_model,
    keep_recorded,
)
from heldout.evaluate._recorded import (
    AnswerOrigin,
    check_origins,
    keep_origin,
    moved_remarks,
    read_suite_answers,
    recorded_files,
    server_origin,
)
from heldout.evaluate.opening import OpenedBenchmark, open_benchmarks
from heldout.evaluate.result import (
    FOLDER,
    SECTION,
    Evaluation,
    keep_leaks,
    read_evaluation,
    write_evaluation,
)
from heldout.evaluate.settings import EvaluateSettings
from heldout.evaluate.suite import Suite, read_suite
from heldout.evaluate.table import read_leaks
from heldout.model import Asker, open_endpoint
from heldout.store import Run, without_credentials


def evaluate(
    settings: EvaluateSettings | None = None,
    *,
    out: str | Path,
    engine: str = "local",
    workers: int | None = None,
    quiet: bool = False,
    **values: Any,
) -> Evaluation:
    """What ``heldout.evaluate`` does, with the same parameters, but without page."""
    chosen = EvaluateSettings.choose(settings, values)
    suite, folder = read_suite(chosen.suite)
    files = recorded_files(chosen, suite)
    benchmarks = open_benchmarks(suite, folder, chosen, quiet=quiet)
    leaks = read_leaks(chosen.leaks, benchmarks)
    recorded = read_suite_answers(files, chosen, benchmarks)
    length = chosen.max_new_tokens or suite.max_new_tokens
    with _askers(chosen, length, engine, workers) as (servers, askers):
        run = Run.create(out, seed=chosen.seed)
        with run.writing():
            check_origins(
                run,
                {
                    **{
                        name: {
                            opened_benchmark.name: origin for opened_benchmark, _, origin in parts
                        }
                        for name, parts in recorded.items()
                    },
                    **{
                        name: {benchmark.name: origin for benchmark in benchmarks}
                        for name, origin in servers.items()
                    },
                },
            )
            _claim(run, suite, benchmarks, chosen)
            keep_leaks(run, leaks)
            done: list[CellAnswers] = []
            try:
                for name, opened in recorded.items():
                    for opened_benchmark, answers, origin in opened:
                        keep_origin(run, name, opened_benchmark.name, origin)
                        with _part(run, opened_benchmark, chosen.seed) as part:
                            done.append(
                                keep_recorded(
                                    opened_benchmark,
                                    answers,
                                    part,
                                    name,
                                    tolerance=chosen.tolerance,
                                )
                            )
                for name, asker in askers:
                    for benchmark in benchmarks:
                        if name in servers:
                            keep_origin(run, name, benchmark.name, servers[name])
                        with _part(run, benchmark, chosen.seed) as part:
                            done.append(
                                ask_model(
                                    benchmark,
                                    asker,
                                    part,
                                    name,
                                    limit=chosen.limit,
                                    tolerance=chosen.tolerance,
                                    quiet=quiet,
                                )
                            )
                    _price(run, chosen, name)
                for name in recorded:
                    _price(run, chosen, name)
            finally:  # whatever ended the asking, tables are written from what there is
                _keep_remarks(run, benchmarks, done, chosen)
                evaluation = read_evaluation(run)
                if evaluation.grades:
                    write_evaluation(evaluation)
    return evaluation


def _claim(
    run: Run, suite: Suite, benchmarks: Sequence[OpenedBenchmark], settings: EvaluateSettings
) -> None:
    known = run.manifest().get(SECTION, {}).get("suite", {}).get("name", suite.name)
    if known != suite.name:
        raise InputError(
            f"{run.path} holds an evaluation on the suite '{known}', not '{suite.name}': use another run "
            f"folder (the setting out)"
        )
    record = settings.model_dump(mode="json")
    for endpoint in record["endpoints"]:
        endpoint["url"] = without_credentials(endpoint["url"])
    kept = run.manifest().get(SECTION, {}).get("benchmarks", {})
    mine = {
        benchmark.name: {"scorers": list(benchmark.scorers), "items": len(benchmark.benchmark)}
        for benchmark in benchmarks
    }
    run.update(
        SECTION,
        {
            "suite": suite.model_dump(mode="json"),
            "settings": record,
            "benchmarks": {**kept, **mine},
        },
    )


@contextlib.contextmanager
def _part(run: Run, opened: OpenedBenchmark, seed: int) -> Iterator[Run]:
    """The run folder of one benchmark: `heldout detect`, `impact` and `report` read it like any other."""
    part = Run.create(run.path / FOLDER / opened.name, seed=seed)
    with part.writing():
        yield part


@contextlib.contextmanager
def _askers(
    settings: EvaluateSettings, length: int, engine: str, workers: int | None
) -> Iterator[tuple[dict[str, AnswerOrigin], Iterator[tuple[str, Asker]]]]:
    """Servers by the names of their models; and local models one after the other, because two large ones may
    not fit into memory."""
    # Servers that do not answer are reported before anything is written.
    servers = [
        (settings.name or asker.model, asker)
        for endpoint in settings.endpoints
        for asker in [
            open_endpoint(
                endpoint.model_copy(update={"max_tokens": length}), settings.seed, "endpoints"
            )
        ]
    ]
    options = (
        ("dtype", settings.dtype),
        ("device", settings.device),
        ("revision", settings.revision),
        ("trust_remote_code", settings.trust_remote_code),
        ("batch_tokens", settings.batch_tokens),
    )
    specs = [LocalModelSpec(name, options, length) for name in settings.models]
    names = [name for name, _ in servers] + [
        settings.name or _short(name) for name in settings.models
    ]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"two models are called '{name}': evaluate them one by one, each with "
                f"the setting name"
            )
    spread = bool(specs) and (engine != "local" or (workers or 1) > 1)
    with open_engine(engine, workers) if spread else contextlib.nullcontext() as where:

        def opened() -> Iterator[tuple[str, Asker]]:
            yield from servers
            for spec in specs:
                asker = EngineAsker(where, spec) if where is not None else spec.open()
                yield settings.name or _short(spec.name), asker

        askers = opened()
        first = next(askers, None)  # a checkpoint that cannot be opened leaves no run behind
        origins = {
            name: server_origin(endpoint.url, asker.model)
            for (name, asker), endpoint in zip(servers, settings.endpoints, strict=True)
        }
        yield origins, (pair for pair in _with(first, askers))


def _with(
    first: tuple[str, Asker] | None, rest: Iterator[tuple[str, Asker]]
) -> Iterator[tuple[str, Asker]]:
    if first is not None:
        yield first
        del first
    yield from rest


def _short(model: str) -> str:
    """A folder is called by its own name, a hub model by its whole one."""
    folder = Path(model.removeprefix("onnx:"))
    return folder.resolve().name if folder.is_dir() else model


def _price(run: Run, settings: EvaluateSettings, model: str) -> None:
    priced = {
        endpoint.model: (endpoint.price_in, endpoint.price_out) for endpoint in settings.endpoints
    }
    price = priced.get(model) or (settings.price_in, settings.price_out)
    if len(settings.endpoints) == 1 and not any(price):
        price = next(iter(priced.values()))
    known = run.manifest()[SECTION].get("prices", {})
    run.update(SECTION, {"prices": {**known, model: list(price)}})


def _keep_remarks(
    run: Run,
    benchmarks: Sequence[OpenedBenchmark],
    done: Sequence[CellAnswers],
    settings: EvaluateSettings,
) -> None:
    remarks = [remark for benchmark in benchmarks for remark in benchmark.remarks]
    remarks += [
        f"{cell_answers.model} on {cell_answers.benchmark}: {remark}"
        for cell_answers in done
        for remark in cell_answers.remarks
    ]
    remarks += moved_remarks(run)
    if settings.limit is not None:
        remarks.append(f"only the first {settings.limit:,} items of every benchmark were asked")
    run.update(SECTION, {"remarks": remarks})
