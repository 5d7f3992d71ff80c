"""Let a judge read the paraphrase candidates of a run's text search, into its tables and manifest."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from heldout.overlap.text.judge import CrossChecked, Judge, cross_check, judge_record
from heldout.store import Run, dropped_table


def judge_texts(run: Run, judge: Judge, *, every: bool = False) -> CrossChecked:
    """Call after ``scan_texts``, inside run.writing(). Where the judge ended half way (``ended``), the
    tables hold its opinions so far, and what it did not read is *unsure*."""
    checked = cross_check(run.read_table("text_matches"), judge, every=every)
    run.write_table("text_matches", checked.matches)
    if checked.dropped:
        known = run.read_table("dropped")
        run.write_table("dropped", pa.concat_tables([known, dropped_table(checked.dropped)]))
    nothing = judge_record(judge, Counter(), Counter())
    texts = run.manifest()["text"]
    told = {
        corpus: {**scanned, "judge": checked.records.get(corpus, nothing)}
        for corpus, scanned in texts.items()
    }
    run.update("text", told, replace=True)
    return checked
