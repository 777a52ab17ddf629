"""Records of a store that are changed and signed again, as if they had been written like that."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from dask_rac.store.header import own_digest


def sign(path: Path, changes: dict[str, Any]) -> None:
    """Change fields of a record, and give it a digest that matches."""
    fields = json.loads(path.read_bytes())
    if isinstance(fields, dict):
        fields.pop("sha256", None)
        fields |= changes
        path.write_text(json.dumps(fields | {"sha256": own_digest(fields)}))


def sign_chain(store: Path, first: int) -> None:
    """Let each manifest from `first` on name the one before it."""
    for step in range(first, len(list(store.glob("manifests/*.json")))):
        before = store / (f"manifests/{step - 1:05d}.json" if step else "rac.json")
        sign(store / f"manifests/{step:05d}.json", {"parent": sha256(before.read_bytes()).hexdigest()})
