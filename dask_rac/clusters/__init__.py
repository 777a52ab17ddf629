"""Where a run computes, by the text of `--scheduler`: threads, processes here, a cluster there is, or one to start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING

from dask_rac.clusters.address import address_place, file_address
from dask_rac.clusters.coiled import coiled_place
from dask_rac.clusters.kubernetes import kubernetes_place
from dask_rac.clusters.local import FORMS as LOCAL_FORMS
from dask_rac.clusters.local import Local, Threads, count_of, local_place
from dask_rac.clusters.place import Place, Tell, file_at
from dask_rac.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["check_spec", "connected", "local_shape"]

FORMS = {
    **LOCAL_FORMS,
    "tcp": "tcp://HOST:PORT",
    "tls": "tls://HOST:PORT",
    "FILE.json": "FILE.json",
    "kubernetes": "kubernetes:SPEC.yaml",
    "coiled": "coiled:SPEC.yaml or coiled:NAME",
}


@contextmanager
def connected(spec: str, *, base: str = "", require_tls: bool = False, tell: Tell) -> Iterator[Client | None]:
    """A client for what `--scheduler` names, None for the threads of this process.

    At the end it is closed, and what was started for it is stopped.
    """
    with _place(spec, base, require_tls).opened(tell) as client:
        yield client


def check_spec(spec: str, base: str = "", require_tls: bool = False) -> None:
    """Raise unless `spec` names a place to run, as far as can be told without starting or connecting."""
    _place(spec, base, require_tls)


def local_shape(spec: str) -> tuple[int, int] | None:
    """Processes and threads of each, where `spec` names processes of this machine and how many."""
    place = _place(spec, "", False) if spec.startswith("local") else None
    return (place.workers, place.threads) if isinstance(place, Local) and place.workers and place.threads else None


def _place(spec: str, base: str, require_tls: bool) -> Place:
    """What `spec` names."""
    kind, _, rest = spec.partition(":")
    if rest.startswith("//"):
        return address_place(spec, spec, require_tls)
    if kind == "threads":
        return Threads(None if kind == spec else count_of(spec, rest))
    if kind == "local":
        return Local(None, None) if kind == spec else local_place(spec, rest)
    if kind in ("kubernetes", "coiled") and rest:
        return (kubernetes_place if kind == "kubernetes" else coiled_place)(spec, base, rest, require_tls)
    if spec.endswith(".json"):
        return address_place(spec, file_address(spec, file_at(base, spec)), require_tls)
    raise InputError(f"scheduler {spec!r} is unknown: use {_nearest_form(kind)}")


def _nearest_form(kind: str) -> str:
    """The form that was meant, or all of them."""
    near = get_close_matches(kind.lower(), FORMS, 1)
    return FORMS[near[0]] if near else ", ".join(FORMS.values())
