"""The role of plain backticks in docstrings: a link for a public name, otherwise code."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.domains.python import PyXRefRole

import dask_rac

LINK = PyXRefRole()


def target_of(text: str) -> str | None:
    """Return the full name if it is public: `knn_graph`, `Clustering.cut`, `plot_rounds`."""
    name = text.removesuffix("()").removeprefix("dask_rac.")
    first, _, rest = name.partition(".")
    if first in dask_rac.__all__ and first != "datasets":
        return f"dask_rac.{name}" if not rest or hasattr(getattr(dask_rac, first), rest) else None
    is_method = "_" in name and callable(getattr(dask_rac.Clustering, name, None)) and not name.startswith("_")
    return f"dask_rac.Clustering.{name}" if is_method else None


def name_role(_role: str, rawtext: str, text: str, lineno: int, inliner: Any, options: Any = None) -> Any:
    """Return a link to a public name, or code."""
    target = target_of(text)
    if target is None:
        return [nodes.literal(rawtext, text)], []
    return LINK("py:obj", rawtext, f"{text} <{target}>", lineno, inliner, options or {})


def setup(app: Any) -> dict[str, Any]:
    """Register the role."""
    app.add_role("name", name_role)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
