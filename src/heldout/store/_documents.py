"""What the JSON documents of a run look like, as far as everything that reads them relies on it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model


def _moment(text: str) -> str:
    datetime.fromisoformat(text)
    return text


_Count = Annotated[int, Field(ge=0)]


class RunDocument(BaseModel):
    """A JSON object; fields that are not named here may be anything. The default of a field is never used."""

    model_config = ConfigDict(extra="allow", strict=True)


class _Benchmark(RunDocument):
    name: str
    fingerprint: str = ""
    items: _Count = 0
    source: str | None = None


class _Inputs(RunDocument):
    benchmark: _Benchmark | None = None


class _Scanned(RunDocument):
    corpus: str
    source: str = ""
    shards: _Count = 0
    counts: dict[str, _Count] = {}
    failed: dict[str, Any] = {}


class Manifest(RunDocument):
    manifest_version: Literal[1]
    created: Annotated[str, AfterValidator(_moment)]
    commands: Annotated[list[list[str]], Field(min_length=1)]
    directories: list[str] = []
    seed: int
    packages: dict[str, str] = {}
    inputs: _Inputs
    stages: dict[str, _Scanned]
    models: dict[str, dict[str, Any]] = {}
    text: dict[str, dict[str, Any]] = {}
    files: dict[str, str] = {}


class _Finding(RunDocument):
    id: str
    cell: dict[str, str | None] = {}


class _Claim(_Finding):
    sentence: str = ""
    status: str = ""
    why: str = ""
    findings: list[str] = []


def _versioned(**lists: Any) -> type[RunDocument]:
    return create_model("Versioned", __base__=RunDocument, schema_version=(Literal[1], 1), **lists)


_FINDINGS, _CLAIMS = (list[_Finding], ...), (list[_Claim], ...)

#: by name; of others it is only checked that they are objects
DOCUMENTS: dict[str, type[BaseModel]] = {
    "findings.json": _versioned(findings=_FINDINGS),
    "claims.json": _versioned(claims=_CLAIMS),
    "detections.json": _versioned(findings=_FINDINGS, claims=_CLAIMS),
    "calibration.json": _versioned(calibrations=(list[dict[str, Any]], ...)),
    "corrected.json": _versioned(models=(list[dict[str, Any]], ...)),
    "twins.json": _versioned(twins=(dict[str, dict[str, Any]], ...)),
    "check.json": _versioned(problems=(list[dict[str, Any]], ...)),
}
