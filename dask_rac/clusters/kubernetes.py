"""Pods that the Dask operator starts on Kubernetes."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_rac.clusters.place import (
    STOP_SECONDS,
    Loop,
    Tell,
    await_workers,
    brief,
    dashboard,
    file_at,
    hush,
    mapping_of,
    require_package,
    start_seconds,
    started,
)
from dask_rac.errors import InputError, ResourceError

if TYPE_CHECKING:
    from distributed import Client

API_VERSION = "kubernetes.dask.org/v1"
CLUSTER_NAME = re.compile(r"(?=.{1,53}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")  # with -scheduler, a name of Kubernetes
CONFLICT = 409  # somebody else has just created a cluster of that name


@dataclass(frozen=True)
class Kubernetes:
    """A cluster that the Dask operator starts on Kubernetes."""

    manifest: dict[str, Any]
    """The DaskCluster."""

    @property
    def name(self) -> str:
        """How Kubernetes knows it."""
        return str(self.manifest["metadata"]["name"])

    @property
    def namespace(self) -> str | None:
        """Where it is made, None for where kubectl would."""
        namespace: str | None = self.manifest["metadata"].get("namespace")
        return namespace

    @contextmanager
    def opened(self, tell: Tell) -> Iterator[Client]:
        """Have it made, and deleted at the end."""
        from distributed import Client  # noqa: PLC0415 - takes a second

        title, workers = f"DaskCluster {self.name}", self.manifest["spec"]["worker"]["replicas"]
        with Loop() as loop:
            cluster = loop.run(self._new(), STOP_SECONDS)
            try:
                tell(f"{title}: waiting for the scheduler")
                self._start(loop, cluster)
                with Client(cluster.scheduler_address) as client:
                    hush(client)
                    await_workers(client, workers, title, tell)
                    tell(dashboard(str(cluster.dashboard_link)))
                    yield client
            finally:
                self._stop(loop, cluster, tell)

    async def _new(self) -> Any:
        """The operator's client, not yet started."""
        from dask_kubernetes.operator.kubecluster.kubecluster import CreateMode, KubeCluster  # noqa: PLC0415 - an extra
        from tornado.ioloop import IOLoop  # noqa: PLC0415 - takes a second

        cluster = KubeCluster(
            custom_cluster_spec=self.manifest,
            namespace=self.namespace,
            create_mode=CreateMode.CREATE_ONLY,
            quiet=True,
            asynchronous=True,
            loop=IOLoop.current(),
        )
        cluster.shutdown_on_close = None  # it becomes True on creation: a cluster of others must not be deleted
        return cluster

    def _start(self, loop: Loop, cluster: Any) -> None:
        """Create it and wait for its scheduler."""
        try:
            loop.run(started(cluster), start_seconds())
        except TimeoutError as error:
            raise ResourceError(
                f"DaskCluster {self.name} has no scheduler in time ({brief(error)}): is the Dask operator installed, "
                f"can the image be pulled? See kubectl get pods -l dask.org/cluster-name={self.name}; Dask's settings "
                "rac.start-timeout and kubernetes.resource-timeout give more time"
            ) from None
        except Exception as error:
            if getattr(getattr(error, "response", None), "status_code", None) == CONFLICT:
                cluster.shutdown_on_close = False
            raise ResourceError(
                f"DaskCluster {self.name} cannot be started: {brief(error)}: kubectl get daskclusters must work here, "
                "with the Dask operator installed and leave to create them"
            ) from error

    def _stop(self, loop: Loop, cluster: Any, tell: Tell) -> None:
        """Delete what was created."""

        async def close() -> None:
            await cluster.close(timeout=STOP_SECONDS)

        try:
            with _silent("dask_kubernetes"):  # of a cluster that was never there
                loop.run(close(), STOP_SECONDS)
        except Exception as error:
            tell(f"DaskCluster {self.name} may still run ({brief(error)}): kubectl delete daskcluster {self.name}")
        cluster.shutdown_on_close = False


@contextmanager
def _silent(name: str) -> Iterator[None]:
    """Keep a library from logging."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def kubernetes_place(spec: str, base: str, rest: str, require_tls: bool) -> Kubernetes:
    """A cluster to start on Kubernetes, if its manifest can be one."""
    path = file_at(base, rest)
    if require_tls:
        raise InputError(
            f"scheduler {spec!r}: the pods of the Dask operator talk in plain text, and TLS is required: start "
            "scheduler and workers with certificates yourself and use their tls:// address"
        )
    manifest = mapping_of(spec, path)
    for key, wanted in (("apiVersion", API_VERSION), ("kind", "DaskCluster")):
        if manifest.get(key) != wanted:
            raise InputError(f"scheduler {spec!r}: {path} has {key} {manifest.get(key)!r}, not {wanted!r}")
    name, replicas = _inside(manifest, "metadata.name"), _inside(manifest, "spec.worker.replicas")
    if not isinstance(name, str) or not CLUSTER_NAME.fullmatch(name):
        raise InputError(
            f"scheduler {spec!r}: {path} has metadata.name {name!r}: use up to 53 small letters, digits and dashes"
        )
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 1:
        raise InputError(f"scheduler {spec!r}: {path} has spec.worker.replicas {replicas!r}: use 1 or more")
    for key in ("spec.worker.spec.containers", "spec.scheduler.spec.containers", "spec.scheduler.service.ports"):
        if not isinstance(_inside(manifest, key), list):
            raise InputError(f"scheduler {spec!r}: {path} has no list {key}, which the Dask operator needs")
    require_package(spec, "dask_kubernetes", "kubernetes")
    return Kubernetes(manifest)


def _inside(content: Any, path: str) -> Any:
    """What a dotted path leads to, None if nothing."""
    for key in path.split("."):
        content = content.get(key) if isinstance(content, Mapping) else None
    return content
