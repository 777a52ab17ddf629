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

from dask_rac.clusters.address import ENCRYPTED
from dask_rac.clusters.place import (
    Loop,
    Tell,
    brief,
    dashboard,
    file_at,
    mapping_of,
    require_package,
    start_seconds,
)
from dask_rac.errors import InputError, ResourceError

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True)
class Coiled:
    """A cluster of Coiled."""

    spec: str
    """As the user gave it."""
    options: dict[str, Any]
    """Keyword arguments of coiled.Cluster."""

    @contextmanager
    def opened(self, tell: Tell) -> Iterator[Client]:
        """Have it made, or find it by its name; what was made is stopped at the end."""
        from distributed import Client  # noqa: PLC0415 - takes a second

        tell(f"Coiled: starting {self.options.get('name', 'a cluster')}, which takes minutes")
        with ExitStack() as stack:
            cluster = self._started(stack)
            client = stack.enter_context(Client(cluster))
            tell(dashboard(str(cluster.dashboard_link)))
            yield client

    def _started(self, stack: ExitStack) -> Any:
        """The cluster, with all its workers, until the stack is closed."""
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
            raise ResourceError(f"scheduler {self.spec!r}: you are not logged in to Coiled: coiled login") from None
        except Exception as error:
            reason = brief(error, token)
        raise ResourceError(
            f"scheduler {self.spec!r}: Coiled did not start the cluster: {reason}; coiled cluster list and coiled "
            "diagnose say more"
        )


async def _log_in(token: str) -> None:
    """Raise AuthenticationError if the token is not valid: coiled.Cluster would open a browser and wait."""
    from coiled.utils import handle_credentials  # noqa: PLC0415 - an extra

    await handle_credentials(token=token, save=False, retry=False, print_invalid_token_messages=False)


def coiled_place(spec: str, base: str, rest: str, require_tls: bool) -> Coiled:
    """A cluster of Coiled, if its options are known ones."""
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
            raise InputError(f"scheduler {spec!r}: {key} is no option of coiled.Cluster: {remedy}")
    if require_tls and dask.config.get("coiled.protocol", "tls") not in ENCRYPTED:
        raise InputError(f"scheduler {spec!r}: TLS is required: set Dask's setting coiled.protocol to tls")
    return Coiled(spec, {"wait_for_workers": True, "show_widget": False, "configure_logging": False} | given)
