"""Machines that Coiled starts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import dask.config
import dask.utils

from dask_rac.base.clusters import cluster_to_stop
from dask_rac.base.errors import InputError, ResourceError
from dask_rac.deploy.address import ENCRYPTED
from dask_rac.deploy.deployment import (
    Loop,
    Notify,
    brief,
    dashboard,
    file_at,
    mapping_of,
    require_package,
    start_seconds,
)

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True)
class Coiled:
    """A cluster on Coiled."""

    spec: str
    """As the user gave it."""
    options: dict[str, Any]
    """Keyword arguments of coiled.Cluster."""

    @contextmanager
    def opened(self, notify: Notify) -> Iterator[Client]:
        """Start the cluster, or find it by name; stop it at the end if it was started here."""
        from distributed import Client  # noqa: PLC0415 - takes a second

        notify(f"Coiled: starting {self.options.get('name', 'a cluster')}, which takes a few minutes")
        with cluster_to_stop("the Coiled cluster"), ExitStack() as stack:
            cluster = self._started(stack)
            client = stack.enter_context(Client(cluster))
            notify(dashboard(str(cluster.dashboard_link)))
            yield client

    def _started(self, stack: ExitStack) -> Any:
        """Return the cluster with all its workers; it stops when the stack is closed."""
        import coiled  # noqa: PLC0415 - an extra
        from coiled.exceptions import AuthenticationError  # noqa: PLC0415 - an extra

        token = dask.config.get("coiled.token", None)
        try:
            if not token:
                raise AuthenticationError("no token is set")
            with Loop() as loop:
                loop.run(_log_in(token), start_seconds())
            cloud = stack.enter_context(coiled.Cloud())
            return stack.enter_context(coiled.Cluster(cloud=cloud, **self.options))
        except AuthenticationError:
            raise ResourceError(f"scheduler {self.spec!r}: you are not logged in to Coiled: run coiled login") from None
        except Exception as error:
            reason = brief(error, token)
        raise ResourceError(
            f"scheduler {self.spec!r}: Coiled did not start the cluster: {reason}; coiled cluster list and coiled "
            "diagnose show more"
        )


async def _log_in(token: str) -> None:
    """Raise AuthenticationError if the token is not valid: coiled.Cluster would open a browser and wait."""
    from coiled.utils import handle_credentials  # noqa: PLC0415 - an extra

    await handle_credentials(token=token, save=False, retry=False, print_invalid_token_messages=False)


def coiled_place(spec: str, base: str, rest: str, require_tls: bool) -> Coiled:
    """Return a cluster on Coiled, if its options are valid."""
    named = re.fullmatch(r"[\w-]+", rest)
    given = {"name": rest} if named else mapping_of(spec, file_at(base, rest))
    require_package(spec, "coiled", "coiled")
    import coiled  # noqa: PLC0415 - an extra

    own = {"self", "asynchronous", "cloud", "custom_widget"}
    known = [key for key in inspect.signature(coiled.Cluster.__init__).parameters if key not in own]
    for key in given:
        if key not in known:
            near = get_close_matches(key, known, 1)
            remedy = f"use {near[0]}" if near else "see help(coiled.Cluster)"
            raise InputError(f"scheduler {spec!r}: {key} is not an option of coiled.Cluster: {remedy}")
    if require_tls and dask.config.get("coiled.protocol", "tls") not in ENCRYPTED:
        raise InputError(f"scheduler {spec!r}: TLS is required: set Dask's setting coiled.protocol to tls")
    return Coiled(spec, {"wait_for_workers": True, "show_widget": False, "configure_logging": False} | given)
