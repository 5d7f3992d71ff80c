"""Evaluation records for Every Eval Ever: one document per model, its score on all, clean and leaked items.

Written for version 0.3.0 of eval.schema.json, as the package every_eval_ever 0.3.0 ships it. The schema allows
only strings as details.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heldout.errors import InputError
from heldout.report._scores_owed import have_seen
from heldout.report.export._case import ExportCase
from heldout.verdict import ACCURACY

SCHEMA_VERSION = "0.3.0"
_SPLITS = {
    "train": "train",
    "validation": "val",
    "valid": "val",
    "val": "val",
    "dev": "val",
    "test": "test",
}
_SUBSETS = {"original": "all items", "non-leaked": "clean items", "leaked": "leaked items"}
_SEEN = (
    "survives: the model has seen the benchmark itself, so that no part of it is clean for this model and "
    "no score on clean items is given"
)


def every_eval_ever(case: ExportCase) -> dict[str, str]:
    """JSON by the name of the model."""
    documents = {
        model["model"]: json.dumps(_document(case, model), indent=2, ensure_ascii=False) + "\n"
        for model in case.corrected.get("models", [])
        if model["metric"] == ACCURACY
    }
    if not documents:
        raise InputError(
            f"{case.run.path} holds no model's answers to {case.name}: Every Eval Ever records scores. "
            f"heldout ask records answers into it"
        )
    return documents


def _document(case: ExportCase, model: Mapping[str, Any]) -> dict[str, Any]:
    stamp = str(int(case.finished.timestamp()))
    known = case.manifest.get("models", {}).get(model["model"], {})
    identity = {
        key: str(known[key])
        for key in ("backend", "revision", "dtype", "template")
        if known.get(key)
    }
    local = known.get("backend") == "transformers"
    identifier = str(known.get("model") or model["model"])
    seen = model["model"] in have_seen(case.cells, case.name)
    developer, slash, _ = identifier.partition("/")
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{case.name}/{identifier}/{stamp}",
        "evaluation_timestamp": case.finished.isoformat(),
        "retrieved_timestamp": stamp,
        "source_metadata": {
            "source_name": f"heldout audit of {case.name}",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "heldout", "version": case.version},
        "model_info": {
            "name": model["model"],
            "id": identifier,
            **({"developer": developer} if slash and developer else {}),
            **({"inference_engine": {"name": "transformers"}} if local else {}),
            "additional_details": {
                **identity,
                "deployment_type": "self_deployed" if local else "unknown",
                "model_availability": "unknown",  # local weights are not necessarily open weights
            },
        },
        "evaluation_results": [
            _result(case, line, seen)
            for line in model["lines"]
            if line["subset"] in _SUBSETS
            and line["value"] is not None
            and not (seen and line["subset"] == "non-leaked")
        ],
    }


def _result(case: ExportCase, line: Mapping[str, Any], seen: bool) -> dict[str, Any]:
    subset = _SUBSETS[line["subset"]]
    interval = line["interval"]
    uncertainty: dict[str, Any] = {"num_samples": line["items"]}
    if interval:
        uncertainty["confidence_interval"] = {
            "lower": interval["low"],
            "upper": interval["high"],
            "confidence_level": interval["level"],
            "method": interval["method"],
        }
    return {
        "evaluation_result_id": f"{case.name}/{line['subset']}/accuracy",
        "evaluation_name": f"{case.name} ({subset})",
        "source_data": _source(case),
        "metric_config": {
            "evaluation_description": f"share right of {subset}; intervals by cluster",
            "metric_id": "accuracy",
            "metric_name": "Accuracy",
            "metric_kind": "accuracy",
            "metric_unit": "proportion",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        },
        "score_details": {
            "score": line["value"],
            "details": {
                "subset": subset,
                "clusters": str(line["clusters"]),
                **_verdicts(case),
                **({"contamination of the model": _SEEN} if seen else {}),
            },
            "uncertainty": uncertainty,
        },
    }


def _source(case: ExportCase) -> dict[str, Any]:
    location = str(case.benchmark["source"])
    if case.hub is not None:
        split = _SPLITS.get(str(case.benchmark.get("split") or "").lower())
        return {
            "dataset_name": case.name,
            "source_type": "hf_dataset",
            "hf_repo": case.hub,
            **({"hf_split": split} if split else {}),
            "samples_number": case.benchmark["items"],
        }
    return {
        "dataset_name": case.name,
        "source_type": "other",
        # Paths of this machine are not published.
        "source_id": Path(location.partition("#")[0]).name,
        "source_version": case.benchmark["fingerprint"],
    }


def _verdicts(case: ExportCase) -> dict[str, str]:
    return {
        f"contamination in {cell['corpus']}": f"{cell['status']}, {cell['leak_rate']['value']:.4f} of items"
        for cell in case.cells
        if cell["corpus"] is not None
    }
