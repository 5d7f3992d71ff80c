"""img2dataset's download log: which rows of the list were never fetched, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heldout.store import Dropped

STATUS = "status"


def not_downloaded(row: Mapping[str, Any], item: str) -> Dropped | None:
    """The reason a logged row has no image, or None if it has one."""
    status = row.get(STATUS)
    if status is None or status == "success":
        return None
    facts = (str(status), row.get("error_message"), row.get("url"))
    return Dropped("corpus", item, "not downloaded", "; ".join(str(fact) for fact in facts if fact))
