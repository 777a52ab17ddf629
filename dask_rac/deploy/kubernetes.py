"""Pods that the Dask operator starts on Kubernetes."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_rac.base.clusters import cluster_to_stop
from dask_rac.base.errors import InputError, ResourceError
from dask_rac.base.text import quoted
from dask_rac.deploy.deployment import (
    STOP_SECONDS,
    Loop,
    Notify,
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

if TYPE_CHECKING:
    from distributed import Client

API_VERSION = "kubernetes.dask.org/v1"
# With -scheduler appended, it must still be a valid name in Kubernetes.
CLUSTER_NAME = re.compile(r"(?=.{1,53}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
CONFLICT = 409  # another client has just created a cluster of that name


@dataclass(frozen=True)
class Kubernetes:
    """A cluster that the Dask operator starts on Kubernetes."""

    manifest: dict[str, Any]
    """The DaskCluster."""

    @property
    def name(self) -> str:
        """Its name in Kubernetes."""
        return str(self.manifest["metadata"]["name"])

    @property
    def namespace(self) -> str | None:
        """Its namespace, None for the default of kubectl."""
        namespace: str | None = self.manifest["metadata"].get("namespace")
        return namespace

    @contextmanager
    def opened(self, notify: Notify) -> Iterator[Client]:
        """Create the cluster, and delete it at the end."""
        from distributed import Client  # noqa: PLC0415 - takes a second

        title, workers = f"DaskCluster {self.name}", self.manifest["spec"]["worker"]["replicas"]
        with Loop() as loop, cluster_to_stop(title):
            cluster = loop.run(self._new(), STOP_SECONDS)
            try:
                notify(f"{title}: waiting for the scheduler")
                self._start(loop, cluster)
                with Client(cluster.scheduler_address) as client:
                    hush(client)
                    await_workers(client, workers, title, notify)
                    notify(dashboard(str(cluster.dashboard_link)))
                    yield client
            finally:
                self._stop(loop, cluster, notify)

    async def _new(self) -> Any:
        """Return the operator's client, not yet started."""
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
        cluster.shutdown_on_close = None  # becomes True on creation: never delete a cluster that was not created here
        return cluster

    def _start(self, loop: Loop, cluster: Any) -> None:
        """Create the cluster and wait for its scheduler."""
        try:
            loop.run(started(cluster), start_seconds())
        except TimeoutError as error:
            raise ResourceError(
                f"DaskCluster {self.name} did not get a scheduler in time ({brief(error)}): is the Dask operator "
                f"installed, can the image be pulled? See kubectl get pods -l dask.org/cluster-name={self.name}; "
                "Dask's settings rac.start-timeout and kubernetes.resource-timeout allow more time"
            ) from None
        except Exception as error:
            if getattr(getattr(error, "response", None), "status_code", None) == CONFLICT:
                cluster.shutdown_on_close = False
            raise ResourceError(
                f"DaskCluster {self.name} cannot be started: {brief(error)}: kubectl get daskclusters must work here, "
                "with the Dask operator installed and permission to create them"
            ) from error

    def _stop(self, loop: Loop, cluster: Any, notify: Notify) -> None:
        """Delete the cluster that was created."""

        async def close() -> None:
            await cluster.close(timeout=STOP_SECONDS)

        try:
            with _silent("dask_kubernetes"):  # it logs errors about a cluster that was never created
                loop.run(close(), STOP_SECONDS)
        except Exception as error:
            notify(
                f"DaskCluster {self.name} may still be running ({brief(error)}): delete it with kubectl "
                f"delete daskcluster {self.name}"
            )
        cluster.shutdown_on_close = False


@contextmanager
def _silent(name: str) -> Iterator[None]:
    """Silence the log of a library."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def kubernetes_place(spec: str, base: str, rest: str, require_tls: bool) -> Kubernetes:
    """Return a cluster to start on Kubernetes, if its manifest is valid."""
    path = file_at(base, rest)
    if require_tls:
        raise InputError(
            f"scheduler {spec!r}: the pods of the Dask operator communicate in plain text, and TLS is required: start "
            "a scheduler and workers with certificates yourself and use their tls:// address"
        )
    manifest = mapping_of(spec, path)
    for key, wanted in (("apiVersion", API_VERSION), ("kind", "DaskCluster")):
        if manifest.get(key) != wanted:
            raise InputError(f"scheduler {spec!r}: {path} has {key} {quoted(manifest.get(key))}, not {wanted!r}")
    name, replicas = _inside(manifest, "metadata.name"), _inside(manifest, "spec.worker.replicas")
    if not isinstance(name, str) or not CLUSTER_NAME.fullmatch(name):
        raise InputError(
            f"scheduler {spec!r}: {path} has metadata.name {quoted(name)}: use up to 53 lower-case letters, digits "
            "and dashes"
        )
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 1:
        raise InputError(f"scheduler {spec!r}: {path} has spec.worker.replicas {quoted(replicas)}: use 1 or more")
    for key in ("spec.worker.spec.containers", "spec.scheduler.spec.containers", "spec.scheduler.service.ports"):
        if not isinstance(_inside(manifest, key), list):
            raise InputError(f"scheduler {spec!r}: {path} has no list {key}, which the Dask operator needs")
    require_package(spec, "dask_kubernetes", "kubernetes")
    return Kubernetes(manifest)


def _inside(content: Any, path: str) -> Any:
    """Return the value at a dotted path, None if there is none."""
    for key in path.split("."):
        content = content.get(key) if isinstance(content, Mapping) else None
    return content
