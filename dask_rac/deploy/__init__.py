"""Where a run computes, as named by `--scheduler`: threads, local processes, a running cluster, or one to start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING

from dask_rac.base.errors import InputError
from dask_rac.deploy.address import address_place, file_address
from dask_rac.deploy.coiled import coiled_place
from dask_rac.deploy.deployment import Deployment, Notify, file_at
from dask_rac.deploy.kubernetes import kubernetes_place
from dask_rac.deploy.local import FORMS as LOCAL_FORMS
from dask_rac.deploy.local import Local, LocalThreads, count_of, local_place

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
def connected(spec: str, *, base: str = "", require_tls: bool = False, notify: Notify) -> Iterator[Client | None]:
    """Connect to what `--scheduler` names; the client is None for threads of this process.

    At the end the client is closed, and a cluster that was started for it is stopped.
    """
    with _place(spec, base, require_tls).opened(notify) as client:
        yield client


def check_spec(spec: str, base: str = "", require_tls: bool = False) -> None:
    """Raise unless `spec` is valid, as far as can be checked without starting or connecting to anything."""
    _place(spec, base, require_tls)


def local_shape(spec: str) -> tuple[int, int] | None:
    """Return the number of processes and of threads in each, if `spec` gives both for this machine."""
    place = _place(spec, "", False) if spec.startswith("local") else None
    return (place.workers, place.threads) if isinstance(place, Local) and place.workers and place.threads else None


def _place(spec: str, base: str, require_tls: bool) -> Deployment:
    """Return what `spec` names."""
    kind, _, rest = spec.partition(":")
    if rest.startswith("//"):
        return address_place(spec, spec, require_tls)
    if kind == "threads":
        return LocalThreads(None if kind == spec else count_of(spec, rest))
    if kind == "local":
        return Local(None, None) if kind == spec else local_place(spec, rest)
    if kind in ("kubernetes", "coiled") and rest:
        return (kubernetes_place if kind == "kubernetes" else coiled_place)(spec, base, rest, require_tls)
    if spec.endswith(".json"):
        return address_place(spec, file_address(spec, file_at(base, spec)), require_tls)
    raise InputError(f"scheduler {spec!r} is unknown: use {_nearest_form(kind)}")


def _nearest_form(kind: str) -> str:
    """Return the form that was probably meant, or all forms."""
    near = get_close_matches(kind.lower(), FORMS, 1)
    return FORMS[near[0]] if near else ", ".join(FORMS.values())
