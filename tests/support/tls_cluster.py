"""A Dask cluster of real processes on the loopback interface that communicate only over TLS.

    with tls_cluster(workers=3, environment={"AWS_ACCESS_KEY_ID": ...}) as cluster:
        with cluster.client() as client:
            dask_rac.cluster(edges, store=..., client=client)
        cluster.kill(0)      # SIGKILL; it is not restarted
        cluster.output()     # what all processes printed

`cluster.address` and `cluster.environment` are for other processes: with that environment, `Client(address)` and the
Dask commands find the certificate by themselves.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from distributed import Client
from distributed.security import Security

from tests.support.object_store import PATIENCE, await_port, free_port

MEMORY = "1GB"


@dataclass
class TlsCluster:
    """A scheduler and workers, each in its own process."""

    address: str
    """tls://127.0.0.1:PORT"""
    environment: dict[str, str] = field(repr=False)
    """Variables to add to the environment of a process that creates a client."""
    folder: Path
    """Certificates, and one log per process."""
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    def client(self) -> Client:
        """Return a new client once all live workers are connected; pass it to runs, as it is not the default client."""
        files = self.folder / "ca.pem", self.folder / "cert.pem", self.folder / "key.pem"
        client = Client(self.address, security=_security(*map(str, files)), timeout=PATIENCE, set_as_default=False)
        client.wait_for_workers(sum(worker.poll() is None for worker in self.workers), timeout=PATIENCE)
        return client

    def kill(self, number: int) -> None:
        """Kill a worker without warning, as if its machine lost power."""
        self.workers[number].send_signal(signal.SIGKILL)
        self.workers[number].wait()

    def output(self) -> str:
        """Return what all processes printed."""
        return "".join(log.read_text(errors="replace") for log in sorted(self.folder.glob("*.log")))


@contextmanager
def tls_cluster(
    workers: int | Sequence[str] = 2,
    environment: Mapping[str, str] | None = None,
    worker_environments: Sequence[Mapping[str, str]] = (),
) -> Iterator[TlsCluster]:
    """Run a cluster during the block: `workers` workers with 1 GB and one thread each, or one per memory limit.

    `environment` is added to that of all processes, and each of `worker_environments` to that of one worker.
    """
    limits = [MEMORY] * workers if isinstance(workers, int) else list(workers)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        security = write_certificate(folder)
        port = free_port()
        address = f"tls://127.0.0.1:{port}"
        common = os.environ | security | dict(environment or {})

        def start(name: str, *arguments: str, own: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
            log: IO[bytes] = stack.enter_context((folder / f"{name}.log").open("wb"))
            program = [sys.executable, "-m", *arguments]
            process = subprocess.Popen(program, stdout=log, stderr=log, cwd=folder, env=common | dict(own or {}))
            stack.callback(_end, process)
            return process

        scheduler = start(
            "scheduler", "distributed.cli.dask_scheduler", "--host", address, "--no-dashboard", "--idle-timeout", "600"
        )
        await_port(port, scheduler)
        started = [
            start(
                f"worker-{number}",
                "distributed.cli.dask_worker",
                address,
                *("--host", "127.0.0.1", "--nthreads", "1", "--memory-limit", limit),
                *(
                    "--no-nanny",
                    "--no-dashboard",
                    "--death-timeout",
                    "60",
                    "--local-directory",
                    str(folder / f"scratch-{number}"),
                ),
                own=worker_environments[number] if number < len(worker_environments) else None,
            )
            for number, limit in enumerate(limits)
        ]
        yield TlsCluster(address, security, folder, scheduler, started)


def write_certificate(folder: Path) -> dict[str, str]:
    """Write a certificate authority and its certificate for 127.0.0.1; return the Dask settings that name them."""
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer, subject = _name("test authority"), _name("127.0.0.1")
    root = (
        _builder(issuer, issuer, authority.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority, hashes.SHA256())
    )
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _builder(subject, issuer, key.public_key())
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .sign(authority, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "ca.pem").write_bytes(root.public_bytes(serialization.Encoding.PEM))
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(private)
    (folder / "key.pem").chmod(0o600)
    prefix = "DASK_DISTRIBUTED__COMM__"
    settings = {f"{prefix}REQUIRE_ENCRYPTION": "True", f"{prefix}TLS__CA_FILE": str(folder / "ca.pem")}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        settings[f"{prefix}TLS__{role}__CERT"] = str(folder / "cert.pem")
        settings[f"{prefix}TLS__{role}__KEY"] = str(folder / "key.pem")
    return settings


def _security(authority: str, certificate: str, key: str) -> Security:
    """Return the security settings of a client."""
    return Security(tls_ca_file=authority, tls_client_cert=certificate, tls_client_key=key, require_encryption=True)


def _name(common: str) -> x509.Name:
    """Return an X.509 name with only a common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    """Return the builder of a certificate that is valid for one day."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, which may have ended already."""
    process.kill()
    process.wait()
