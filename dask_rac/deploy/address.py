"""A running cluster, at an address or named by a scheduler file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import dask.config
import dask.utils

from dask_rac.base.errors import InputError, ResourceError
from dask_rac.base.records import parse_json
from dask_rac.base.secrets import masked_url
from dask_rac.deploy.deployment import Loop, Notify, brief, hush, text_of

if TYPE_CHECKING:
    from distributed import Client

ENCRYPTED = ("tls", "wss")
TLS_SETTINGS = ("distributed.comm.tls.ca-file", "distributed.comm.tls.client.cert", "distributed.comm.tls.client.key")


@dataclass(frozen=True)
class Address:
    """A scheduler that was started elsewhere, and keeps running."""

    spec: str
    """As the user gave it."""
    address: str
    """Where it listens."""

    @contextmanager
    def opened(self, notify: Notify) -> Iterator[Client]:
        """Connect to it."""
        from distributed import Client  # noqa: PLC0415 - takes a second

        if _is_exposed(self.address):
            notify(f"warning: {_exposure(self.address)}")
        patience = float(dask.utils.parse_timedelta(dask.config.get("distributed.comm.timeouts.connect", "30s")))
        try:
            with Loop() as loop:
                loop.run(_greet(self.address), patience)
            client = Client(self.address)
        except ValueError as error:
            raise InputError(f"scheduler {self.spec!r}: {error}") from None
        except (OSError, TimeoutError) as error:
            reason = "" if isinstance(error, TimeoutError) else f" ({brief(error)})"
            raise ResourceError(
                f"no Dask scheduler answers at {self.address} within {patience:.3g} s{reason}: start one there (dask "
                "scheduler), or allow more time with Dask's setting distributed.comm.timeouts.connect"
            ) from None
        with client:
            hush(client)
            yield client


async def _greet(address: str) -> None:
    """Connect and shake hands: a Client would wait forever for a port that never answers."""
    from distributed.comm.core import connect  # noqa: PLC0415 - takes a second
    from distributed.security import Security  # noqa: PLC0415 - takes a second

    if not _loads_security():
        comm = await connect(address, **Security().get_connection_args("client"))
        await comm.close()


def address_place(spec: str, address: str, require_tls: bool) -> Address:
    """Return the scheduler to connect to, if that is allowed."""
    if masked_url(address) != address:
        raise InputError(f"scheduler {masked_url(spec)!r}: an address has no login, ? or #: use tcp://HOST:PORT")
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InputError(f"scheduler {spec!r}: {address} is not an address: {error}; use tcp://HOST:PORT") from None
    if not host:
        raise InputError(f"scheduler {spec!r}: {address} has no host: use tcp://HOST:PORT")
    if parts.scheme in ENCRYPTED:
        _check_certificates(spec)
    elif require_tls and _is_exposed(address):
        raise InputError(f"scheduler {spec!r}: {_exposure(address)}, and TLS is required")
    return Address(spec, address)


def file_address(spec: str, path: Path) -> str:
    """Return the address in a scheduler file."""
    text = text_of(spec, path, "a scheduler file")
    try:
        address = parse_json(text)["address"]
    except (ValueError, KeyError, TypeError):
        address = None
    if not isinstance(address, str) or "://" not in address:
        raise InputError(
            f"scheduler {spec!r}: {path} is not a scheduler file: pass the file that dask scheduler "
            "--scheduler-file wrote"
        )
    return address


def _is_exposed(address: str) -> bool:
    """Whether an address is unencrypted and reachable from other machines."""
    parts = urlsplit(address)
    if parts.scheme in ENCRYPTED:
        return False
    try:
        return not ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.hostname != "localhost"


def _exposure(address: str) -> str:
    """Return the warning about an unencrypted connection."""
    return (
        f"{address} is unencrypted: data and code travel in plain text, and anyone who reaches the port can run code; "
        "start the cluster with certificates and use tls://"
    )


def _loads_security() -> bool:
    """Whether a function of the user provides the certificates."""
    return dask.config.get("distributed.client.security-loader", None) is not None


def _check_certificates(spec: str) -> None:
    """Raise unless Dask's settings name certificates that exist."""
    if _loads_security():
        return
    values = {key: dask.config.get(key, None) for key in TLS_SETTINGS}
    for key in TLS_SETTINGS[:2]:  # the key may be in the certificate's file
        if not values[key]:
            raise InputError(
                f"scheduler {spec!r} needs certificates: set {', '.join(TLS_SETTINGS)} in Dask's settings (a YAML file "
                f"in ~/.config/dask, or DASK_DISTRIBUTED__COMM__TLS__CA_FILE and so on); {key} is not set"
            )
    for key, value in values.items():
        if value and "\n" not in value and not Path(value).is_file():
            raise InputError(f"scheduler {spec!r}: {value}, Dask's setting {key}, is not a file")
    from distributed.security import Security  # noqa: PLC0415 - takes a second

    try:
        Security().get_connection_args("client")
    except (OSError, ValueError) as error:
        raise InputError(
            f"scheduler {spec!r}: cannot load the certificates in {', '.join(TLS_SETTINGS)}: {brief(error)}"
        ) from None
