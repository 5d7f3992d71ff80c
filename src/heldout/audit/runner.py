"""A whole audit, stage by stage: finished stages are kept, and a killed audit continues."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from heldout.audit._recording import (
    AuditLedger,
    file_digest,
    fingerprint,
    forget_loaded,
    inputs_of,
    record,
    refuse_changed,
)
from heldout.audit.audit_file import Search
from heldout.audit.cases import CORRECTED, AuditCase, open_cases, open_controls, write_corrections
from heldout.audit.conclusion import conclude, refuse_other_search, share_nearness
from heldout.audit.overlap import calibration_plan, open_judge, search_corpora
from heldout.audit.plan import Plan, make_plan, refuse_over_budget
from heldout.audit.reader import Audit, read_audit
from heldout.audit.verbs import FreshItems, fresh_steps, open_fresh_items, synthesize
from heldout.benchmark import CheckSettings
from heldout.corpus import corpus_fingerprint
from heldout.detect import DetectSettings, Finding, ScoreTables, detectors
from heldout.engine import Engine, open_engine
from heldout.errors import html_table
from heldout.evidence import keep_leak_labels
from heldout.model import note_twins
from heldout.overlap import ModelJudge, can_register
from heldout.report import forget_sources, note_sources, write_audit_report
from heldout.store import Run, exclusive, log_path, write_json
from heldout.verdict import (
    Claim,
    DetectorOutcomes,
    Overall,
    benchmark_verdict,
    claims_frame,
    earlier_looks,
    findings_frame,
    judge,
    look,
    overall_verdict,
    read_rates,
    record_looks,
    save_examination,
    shipped_rates,
)

Tell = Callable[[str], None]
_TABLES = (
    "items",
    "matches",
    "text_matches",
    "text_queries",
    "nearest",
    "scores",
    "answers",
    "order_joint",
    "order_neighbour",
    "entropies",
)


@dataclass
class AuditResult:
    """The result of an audit. ``made`` and ``kept`` name stages that ran now, or had run before."""

    plan: Plan
    overall: Overall
    runs: dict[str, Path]
    verdict: Path
    datasets: dict[str, Path] = field(default_factory=dict)  # run folders of fresh items
    made: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    @property
    def claims(self) -> pl.DataFrame:
        """What the audit concludes of every benchmark, with a status each."""
        return self._frame("claims", Claim, claims_frame)

    @property
    def findings(self) -> pl.DataFrame:
        """The numbers that claims rest on."""
        return self._frame("findings", Finding, findings_frame)

    def _frame(
        self, name: str, record: type[Claim] | type[Finding], frame: Callable[..., pl.DataFrame]
    ) -> pl.DataFrame:
        frames = []
        for benchmark, path in self.runs.items():
            own = frame(Run.open(path).entries(name, record))
            frames.append(own.select(pl.lit(benchmark).alias("audited"), pl.all()))
        return pl.concat(frames, how="vertical_relaxed") if frames else frame([])

    def __repr__(self) -> str:
        statuses = Counter(cell.status for cell in self.overall.cells)
        cells = ", ".join(f"{status} {count:,}" for status, count in statuses.items())
        return f"<Audit of {', '.join(self.runs)}: {cells}, {self.verdict.parent}>"

    def _repr_html_(self) -> str:
        rows = ((row["audited"], row["status"], row["sentence"]) for row in self.claims.to_dicts())
        page = self.verdict.parent / "report.html"
        return html_table(("benchmark", "status", "claim"), rows, f"report: {page}")

    def as_json(self) -> dict[str, Any]:
        return {
            **self.overall.as_json(),
            "runs": {name: str(path) for name, path in self.runs.items()},
            "datasets": {name: str(path) for name, path in self.datasets.items()},
            "stages": {"made": self.made, "kept": self.kept},
        }

    @property
    def cells(self) -> pl.DataFrame:
        """One row per benchmark and corpus or model, with its status."""
        rows = [
            {
                "benchmark": cell.cell.benchmark,
                "corpus": cell.cell.corpus,
                "model": cell.cell.model,
                "status": cell.status,
                "leak_rate": cell.leak.value if cell.leak is not None else None,
            }
            for cell in self.overall.cells
        ]
        schema = dict.fromkeys(("benchmark", "corpus", "model", "status"), pl.String)
        return pl.DataFrame(rows, schema={**schema, "leak_rate": pl.Float64})


def run_audit(
    audit: Audit | str | Path, *, tell: Tell = lambda _: None, quiet: bool = False
) -> AuditResult:
    """Audit benchmarks against corpora and models from one file: evidence, controls, claims, one verdict.

    ``heldout.audit(...)`` is this function, too. A killed audit continues where it was when it is called
    again; what is finished is not done again unless its inputs change.

    Args:
        audit: An audit file that was read, or its path.
        tell: Receives a line per stage.
        quiet: Show no progress.

    Returns:
        The verdict and the runs, with claims and findings as data frames.
    """
    if not isinstance(audit, Audit):
        audit = read_audit(Path(audit))
    cases = open_cases(audit)
    fresh = open_fresh_items(audit, cases)
    plan = make_plan(cases, audit.file, fresh_steps(fresh))
    refuse_over_budget(plan)
    audit.output.mkdir(parents=True, exist_ok=True)
    busy = f"{audit.output} is being written by another audit; wait for it"
    with exclusive(audit.output / ".audit.lock", busy=busy):
        refuse_changed(audit, cases)
        return _Journey(audit, cases, fresh, plan, tell, quiet).run()


class _Journey:
    def __init__(
        self,
        audit: Audit,
        cases: list[AuditCase],
        fresh: list[FreshItems],
        plan: Plan,
        tell: Tell,
        quiet: bool,
    ) -> None:
        self.audit, self.file, self.cases, self.fresh = audit, audit.file, cases, fresh
        self.plan, self.tell, self.quiet = plan, tell, quiet
        self.ledger = AuditLedger(audit.output)
        self.made: list[str] = []
        self.kept: list[str] = []
        self.looked: dict[str, DetectorOutcomes] = {}
        rates_file = audit.file.rates
        self.rates = read_rates(Path(audit.located(rates_file))) if rates_file else shipped_rates()
        per_case = [
            bool(case.corpora)
            + sum(recording.scored + recording.answered for recording in case.recordings)
            + (2 if case.recordings else 0)
            + 1
            for case in cases
        ]
        self.total = sum(per_case) + len(fresh)

    def run(self) -> AuditResult:
        runs = {}
        for case in self.cases:
            runs[case.name] = Run.create(case.folder, seed=self.file.seed)
            shutil.copyfile(self.audit.path, case.folder / "audit.yaml")
        with open_engine(self.file.search.engine, self.file.search.workers) as engine:
            for case in self.cases:
                self._overlap(case, runs[case.name], engine)
        share_nearness(runs)
        # One model after the other: a loaded one serves all benchmarks before the next is loaded.
        for case in self.cases:
            if any(recording.answered or recording.twins for recording in case.recordings):
                with runs[case.name].writing():  # recorded answers to twins are answers to these
                    note_twins(runs[case.name], case.benchmark, case.twins, renewed=True)
        for model in self.file.models:
            for case in self.cases:
                for recording in case.recordings:
                    if recording.name != model.name:
                        continue
                    for kind, wanted in (
                        ("scores", recording.scored),
                        ("answers", recording.answered),
                    ):
                        if wanted:
                            self._record(case, runs[case.name], recording, kind)
        forget_loaded()
        tested = {
            case.name: self._test(case, runs[case.name]) for case in self.cases if case.recordings
        }
        verdicts = []
        for case in self.cases:
            run = runs[case.name]
            if case.recordings:
                self._judge(case, run, tested)
            self._conclude(case, run)
            tried = [
                recording.name
                for recording in case.recordings
                if recording.name not in self.file.baselines
            ]
            corrected = run.read_json(CORRECTED)
            verdicts.append(benchmark_verdict(run, case.name, corrected, tried))
        overall = overall_verdict(verdicts, self.plan.as_json()["family"])
        target = self.audit.output / "verdict.json"
        write_json(self.audit.output / "plan.json", self.plan.as_json())
        write_json(target, overall.as_json())
        write_audit_report(self.audit.output, self.file.report)
        # Last, so that the verdict is there even if an endpoint fails.
        datasets = {
            fresh_items.settings.name: self._synthesize(fresh_items) for fresh_items in self.fresh
        }
        if datasets:
            write_audit_report(self.audit.output, self.file.report)
        return AuditResult(
            self.plan,
            overall,
            {name: run.path for name, run in runs.items()},
            target,
            datasets,
            self.made,
            self.kept,
        )

    def _stage(
        self, key: str, inputs: dict[str, Any], outputs: list[Path], work: Callable[[], Any]
    ) -> Any:
        """Do ``work`` unless it was done on the same inputs; work that may still succeed is not done."""
        mark = fingerprint(inputs)
        number = len(self.made) + len(self.kept) + 1
        known = self.ledger.finished(key, mark, outputs)
        if known is not None:
            self.kept.append(key)
            self.tell(f"[{number}/{self.total}] {key}: finished before")
            return known
        self.tell(f"[{number}/{self.total}] {key}")
        result = work()
        self.made.append(key)
        if not (isinstance(result, dict) and result.get("again")):
            self.ledger.finish(key, mark, result)
        return result

    def _overlap(self, case: AuditCase, run: Run, engine: Engine) -> None:
        if not case.corpora:
            refuse_other_search(run, self.audit.path)
            return
        search = self.file.search
        null, controls = open_controls(self.audit)
        inputs = {
            "benchmark": case.benchmark.fingerprint,
            "corpora": [(corpus.name, corpus_fingerprint(corpus)) for corpus in case.corpora],
            "search": _search_inputs(search),
            "null": corpus_fingerprint(null) if null is not None else "",
            "controls": [
                (control.corpus.name, control.domain, corpus_fingerprint(control.corpus))
                for control in controls
            ],
            "seed": self.file.seed,
            "registration": can_register(),
        }
        if self.file.check != CheckSettings():
            inputs["check"] = self.file.check.model_dump(mode="json")

        def work() -> dict[str, Any]:
            settings = search
            if search.embeddings is not None:
                folder = self.audit.located(search.embeddings)
                settings = search.model_copy(update={"embeddings": folder})
            asker = open_judge(search)
            judge = ModelJudge.of(run, asker, quiet=self.quiet) if asker is not None else None
            plan = calibration_plan(search, null, controls)
            with run.writing():
                ended = search_corpora(
                    case.benchmark,
                    case.corpora,
                    run,
                    engine,
                    settings,
                    plan,
                    judge=judge,
                    checked=self.file.check,
                    quiet=self.quiet,
                )
            if ended is not None:  # its opinions so far count; the next call requests the others
                self.tell(f"the judge stopped: {ended}")
            scanned = run.manifest()["stages"].values()
            again = ended is not None or any(
                stage["failed"] or stage["counts"].get("missing") for stage in scanned
            )
            return {"corpora": [stage["corpus"] for stage in scanned], "again": again}

        self._stage(f"{case.name}/overlap", inputs, [run.table_path("matches")], work)

    def _record(self, case: AuditCase, run: Run, recording: Any, kind: str) -> None:
        inputs = inputs_of(self.audit, case, recording, kind)
        self._stage(
            f"{case.name}/{kind}/{recording.name}",
            inputs,
            [run.table_path(kind)],
            lambda: record(self.audit, case, recording, kind, run, quiet=self.quiet),
        )

    def _test(self, case: AuditCase, run: Run) -> dict[str, float]:
        """Every detector that was planned; returns one p per claim."""

        def work() -> dict[str, float]:
            self.looked[case.name] = self._look(case, run)
            return self.looked[case.name].p_values

        p_values: dict[str, float] = self._stage(
            f"{case.name}/tests", self._tested_on(case, run), [], work
        )
        return p_values

    def _tested_on(self, case: AuditCase, run: Run) -> dict[str, Any]:
        return {
            **_evidence(run),
            "models": [recording.name for recording in case.recordings],
            "checks": {
                name: model.get("self_checks")
                for name, model in run.manifest().get("models", {}).items()
            },
            "settings": str(self._settings(case)),
            "detectors": self._detectors(case),
            "twins": run.manifest().get("twins"),
        }

    def _look(self, case: AuditCase, run: Run) -> DetectorOutcomes:
        # A model that the audit file no longer names stays in the folder, but is not in the family.
        named = [recording.name for recording in case.recordings]
        tables = ScoreTables.load(run).of_models(named)
        return look(tables, self._detectors(case), self._settings(case))

    def _detectors(self, case: AuditCase) -> list[str]:
        has = {
            "scores": any(recording.scored for recording in case.recordings),
            "answers": any(r.answered or r.twins for r in case.recordings),
        }
        return [name for name in self.file.detectors if has[detectors()[name].needs]]

    def _settings(self, case: AuditCase) -> DetectSettings:
        file, recorded = self.file, {recording.name: recording for recording in case.recordings}
        clean = file.clean_references
        return DetectSettings(
            seed=file.seed,
            permutations=file.permutations,
            strata=tuple(file.strata),
            baselines=tuple(name for name in file.baselines if name in recorded),
            reference=clean.model if clean.model in recorded else None,
            unseen=next(iter(clean.items.items()), None),
            category=file.category,
            bases=tuple(
                (name, recording.entry.base)
                for name, recording in recorded.items()
                if recording.answered and recording.entry.base in recorded
            ),
            families=tuple(
                (name, recording.entry.family)
                for name, recording in recorded.items()
                if recording.entry.family is not None
            ),
            degrees=tuple(
                (name, recording.entry.degree)
                for name, recording in recorded.items()
                if recording.answered and recording.entry.degree is not None
            ),
        )

    def _judge(self, case: AuditCase, run: Run, tested: dict[str, dict[str, float]]) -> None:
        """Claims, corrected over all that was planned: those of other benchmarks, and failed tests as p = 1."""
        others = [
            p for name, p_values in tested.items() if name != case.name for p in p_values.values()
        ]
        untested = sum(
            claim not in tested.get(name, {})
            for name, claims in self.plan.claims.items()
            for claim in claims
        )
        family = [*others, *[1.0] * untested]

        def work() -> list[str]:
            looked = self.looked.get(case.name) or self._look(case, run)
            examination = judge(looked, family, self.rates, earlier_looks(run, looked))
            save_examination(run, examination)
            record_looks(run, looked, examination)
            return [claim.id for claim in examination.claims]

        inputs = {
            **self._tested_on(case, run),
            "family": sorted(family),
            "rates": self.rates.digest,
        }
        self._stage(f"{case.name}/claims", inputs, [run.path / "detections.json"], work)

    def _conclude(self, case: AuditCase, run: Run) -> None:
        """Corrected scores and the page, computed from the current tables and claims."""
        names = [recording.name for recording in case.recordings]
        inputs = {
            **_evidence(run),
            "claims": file_digest(run.path / "detections.json"),
            "nearness": run.manifest().get("audit", {}),
            "models": names,
            "page": self.file.report.model_dump(mode="json"),
            "leaks": (case.labels.source, case.labels.sha256) if case.labels is not None else "",
        }

        if case.mixed:
            inputs["mixture"] = case.weights

        def work() -> dict[str, Any]:
            with run.writing():
                keep_leak_labels(run, case.labels)
                if case.mixed:
                    note_sources(run, case.corpora)
                else:
                    forget_sources(run)
                corrected = write_corrections(run, names, seed=self.file.seed)
                conclude(run, settings=self.file.report, quiet=self.quiet)
            return {"models": [model.model for model in corrected.models]}

        outputs = [run.path / CORRECTED, run.path / "report.html", run.path / "claims.json"]
        self._stage(f"{case.name}/report", inputs, outputs, work)

    def _synthesize(self, entry: FreshItems) -> Path:
        def work() -> dict[str, Any]:
            search = self.file.search
            synthesis = synthesize(
                entry.settings,
                out=entry.folder,
                engine=search.engine,
                workers=search.workers,
                quiet=self.quiet,
                benchmarks=entry.benchmarks,
            )
            return {**synthesis.funnel.as_json(), "again": synthesis.undecided > 0}

        key = f"{entry.settings.name}/synth"
        with self.audit.at("synth", entry.number):
            self._stage(key, entry.inputs, [entry.folder / "report.html"], work)
        return entry.folder


def _search_inputs(search: Search) -> dict[str, Any]:
    """Settings that the tables of a search depend on."""
    without = {"engine", "workers", *(("judge", "judge_all") if search.judge is None else ())}
    return search.model_dump(mode="json", exclude=without)


def _evidence(run: Run) -> dict[str, Any]:
    """What claims and corrected scores are made of: the run's tables, and what people judged of them."""
    return {
        "tables": {name: file_digest(run.table_path(name)) for name in _TABLES},
        "judged": file_digest(log_path(run.path)),
    }
