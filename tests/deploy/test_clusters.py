"""Where runs compute: local processes, existing schedulers, TLS, Kubernetes and Coiled."""

from __future__ import annotations

import copy
import datetime
import gc
import ipaddress
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import coiled  # noqa: F401 - imported under a setting that ends, it would lose its own
import dask
import dask_kubernetes.operator.kubecluster.kubecluster  # in full: no time that a cluster has goes into it
import distributed  # noqa: F401 - as above
import jsonschema
import psutil
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import dask_rac
from dask_rac.base.errors import InputError, ResourceError
from dask_rac.deploy import check_spec, connected
from tests.support.root import ROOT

KUBERNETES = ROOT / "pipelines/kubernetes/cluster.yaml"
COILED = ROOT / "pipelines/coiled/cluster.yaml"
SILENT: Callable[[str], None] = lambda _: None  # noqa: E731
SECRET = "s3cr3t-token"

# What Coiled and kr8s leave open is garbage collected during or after the test that opened it.
pytestmark = pytest.mark.filterwarnings("ignore:[Uu]nclosed (connection|transport|<socket):ResourceWarning")


SERVERS: list[str] = []
"""Those started in a test."""


@pytest.fixture(autouse=True)
def _nothing_left_open() -> Iterator[None]:
    yield
    if SERVERS:
        SERVERS.clear()
        gc.collect()


def manifest() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(KUBERNETES.read_text())
    return content


def write_yaml(path: Path, content: Any) -> str:
    path.write_text(yaml.safe_dump(content))
    return path.name


def refused(spec: str, match: str, base: str = "", require_tls: bool = False) -> None:
    """Check that both entry points refuse a spec, and that nothing is started."""
    with pytest.raises(InputError, match=match):
        check_spec(spec, base, require_tls)
    with (
        pytest.raises(InputError, match=match),
        connected(spec, base=base, require_tls=require_tls, notify=SILENT),
    ):
        pass


# What the spec alone shows


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("", "unknown: use threads or threads:N, local:"),
        ("thread", "unknown: use threads or threads:N$"),
        ("Local:2", "use local:WORKERSxTHREADS$"),
        ("kubernets:x.yaml", "use kubernetes:SPEC.yaml$"),
        ("tpc:1", "use tcp://HOST:PORT$"),
        ("coiled:", "use coiled:SPEC.yaml or coiled:NAME$"),
        ("threads:", "'' must be a whole number, 1 or more"),
        ("threads:0", "'0' must be a whole number, 1 or more: use threads or threads:N"),
        ("threads:two", "'two' must be"),
        ("local:2x", "'' must be"),
        ("local:-1", "'-1' must be"),
        ("local:2x1x1", "'1x1' must be"),
        ("tcp://", "has no host"),
        ("tcp://127.0.0.1:port", "is not an address"),
        ("nowhere.json", "nowhere.json does not exist: pass the path of a scheduler file"),
        ("kubernetes:nowhere.yaml", "nowhere.yaml does not exist: pass the path of the spec of a cluster"),
        ("coiled:nowhere.yaml", "nowhere.yaml does not exist: pass the path of the spec of a cluster"),
    ],
)
def test_specs_that_name_nothing(spec: str, match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused(spec, match)


def test_importing_is_cheap() -> None:
    code = "import sys, dask_rac.deploy; print(sorted({'distributed', 'numba', 'coiled', 'kr8s'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "[]"


def test_threads() -> None:
    with connected("threads", notify=SILENT) as client:
        assert client is None
        assert dask.config.get("num_workers", None) is None
    with connected("threads:3", notify=SILENT) as client:
        assert client is None
        assert dask.config.get("num_workers") == 3
    assert dask.config.get("num_workers", None) is None


# Local processes


def listening(process: psutil.Process) -> set[str]:
    """Return the addresses at which a process and its children listen."""
    family = [process, *process.children(recursive=True)]
    return {each.laddr.ip for one in family for each in one.net_connections() if each.status == psutil.CONN_LISTEN}


def test_local_processes_and_their_dashboard() -> None:
    notices: list[str] = []
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with connected("local:2x1", notify=notices.append) as client:
        assert client is not None
        workers = client.scheduler_info(n_workers=-1)["workers"]
        assert [worker["nthreads"] for worker in workers.values()] == [1, 1]
        assert len(set(client.gather(client.map(pid_of, range(20))))) == 2
        assert listening(psutil.Process()) == {"127.0.0.1"}
        link = next(re.fullmatch(r"dashboard: (http://127\.0\.0\.1:\d+/status)", line) for line in notices[-1:])
        assert link
        with urllib.request.urlopen(link[1], timeout=10) as answer:
            assert answer.status == 200
        started = time.monotonic()
    assert time.monotonic() - started < 15
    assert "8787" in link[1] or not port_is_free(8787)
    left = {child.pid for child in psutil.Process().children(recursive=True) if child.status() != "zombie"}
    assert {pid for pid in left - before if "resource_tracker" not in " ".join(psutil.Process(pid).cmdline())} == set()


def pid_of(_: int) -> int:
    time.sleep(0.02)
    return os.getpid()


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


SCRIPT = """
import sys, time
from dask_rac.deploy import connected

def nap(_):
    time.sleep(60)

if __name__ == "__main__":
    sys.modules["bokeh"] = None
    try:
        with connected("local:2x1", notify=lambda text: print(text, flush=True)) as client:
            futures = client.map(nap, range(4))
            print("running", flush=True)
            client.gather(futures)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def test_an_interrupt_ends_all_processes_in_silence(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, "script.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    notices = list(iter(process.stdout.readline, "running\n"))
    assert notices[-1] == "dashboard: install it with pip install 'dask-rac[dashboard]'\n"  # there is no bokeh
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 2
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=40)
    assert (process.returncode, err) == (130, "")
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []


# Existing schedulers


@contextmanager
def processes(folder: Path, scheme: str, *options: str) -> Iterator[tuple[str, Path]]:
    """A scheduler and a worker, as users start them: the address and the scheduler file."""
    file = folder / "scheduler.json"
    plain = [sys.executable, "-m", "dask"]
    where = ["--scheduler-file", str(file), "--host", f"{scheme}://127.0.0.1", "--no-dashboard", *options]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    started = [subprocess.Popen([*plain, "scheduler", "--port", "0", *where], **quiet)]  # type: ignore[call-overload]
    try:
        deadline = time.monotonic() + 40
        while not (file.exists() and file.read_text().endswith("}")) and time.monotonic() < deadline:
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        worker = [*plain, "worker", *where, "--nthreads", "1", "--no-nanny"]
        started.append(subprocess.Popen(worker, **quiet))  # type: ignore[call-overload]
        yield address, file
        assert [process.poll() for process in started] == [None, None], "they are not ours to stop"
    finally:
        for process in started:
            process.kill()
            process.wait()


def check_connects(spec: str, base: str = "", require_tls: bool = False) -> None:
    """Check that a task runs there, and that there are no notices."""
    notices: list[str] = []
    with connected(spec, base=base, require_tls=require_tls, notify=notices.append) as client:
        assert client is not None
        assert client.submit(sum, [1, 2]).result(timeout=30) == 3
    assert notices == []


def test_an_address_and_a_scheduler_file(tmp_path: Path) -> None:
    with processes(tmp_path, "tcp") as (address, file):
        check_connects(address)
        check_connects(address, require_tls=True)
        check_connects(file.name, base=str(tmp_path))


def certificates(folder: Path) -> dict[str, str]:
    """Return Dask's settings for a certificate authority and a certificate it signed."""
    now = datetime.datetime.now(datetime.UTC)
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("authority", "dask")}
    names = {name: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in keys}
    for name, key in keys.items():
        made = (
            x509.CertificateBuilder()
            .subject_name(names[name])
            .issuer_name(names["authority"])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
            .add_extension(x509.BasicConstraints(ca=name == "authority", path_length=None), True)
            .sign(keys["authority"], hashes.SHA256())
        )
        (folder / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (folder / f"{name}.key").write_bytes(secret)
    return {
        "distributed.comm.tls.ca-file": str(folder / "authority.pem"),
        "distributed.comm.tls.client.cert": str(folder / "dask.pem"),
        "distributed.comm.tls.client.key": str(folder / "dask.key"),
    }


def test_tls_by_the_settings_of_dask(tmp_path: Path) -> None:
    settings = certificates(tmp_path)
    files = [str(tmp_path / name) for name in ("authority.pem", "dask.pem", "dask.key")]
    options = [word for pair in zip(("--tls-ca-file", "--tls-cert", "--tls-key"), files, strict=True) for word in pair]
    with processes(tmp_path, "tls", *options) as (address, file):
        assert address.startswith("tls://127.0.0.1:")
        refused(address, r"needs certificates: set distributed\.comm\.tls\.ca-file")
        with dask.config.set(settings):
            check_connects(address, require_tls=True)
            check_connects(str(file), require_tls=True)
        with dask.config.set(settings | {"distributed.comm.tls.client.cert": str(tmp_path / "gone.pem")}):
            refused(address, r"gone\.pem, Dask's setting distributed\.comm\.tls\.client\.cert, is not a file")
        with dask.config.set(settings | {"distributed.comm.tls.client.key": str(tmp_path / "authority.key")}):
            refused(address, "cannot load the certificates in")
        with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
            unreachable(address.replace("tls", "tcp"))


def unreachable(address: str) -> str:
    """Without a scheduler, connecting fails soon."""
    started = time.monotonic()
    match = f"no Dask scheduler answers at {re.escape(address)} within"
    with pytest.raises(ResourceError, match=match) as error, connected(address, notify=SILENT):
        pass
    assert time.monotonic() - started < 15
    return str(error.value)


def test_no_server_and_another_server(capfd: pytest.CaptureFixture[str]) -> None:
    with dask.config.set({"distributed.comm.timeouts.connect": "500ms"}), socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        assert "distributed.comm.timeouts.connect" in unreachable(address)
        silent.listen()
        unreachable(address)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("address", ["tcp://192.0.2.1:8786", "ucx://scheduler:8786", "tcp://[2001:db8::1]:8786"])
def test_plain_text_to_other_machines(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise ConnectionRefusedError("the tests connect to nothing but this machine")

    notices: list[str] = []
    (tmp_path / "scheduler.json").write_text(json.dumps({"address": address}))
    monkeypatch.setattr("dask_rac.deploy.address._greet", never)
    for spec in (address, "scheduler.json"):
        refused(spec, "is unencrypted: .* can run code.* TLS is required", str(tmp_path), require_tls=True)
        check_spec(spec, str(tmp_path))
        with pytest.raises(ResourceError), connected(spec, base=str(tmp_path), notify=notices.append):
            pass
    assert len(notices) == 2
    assert all(line.startswith(f"warning: {address} is unencrypted") for line in notices)


@pytest.mark.parametrize("address", ["tcp://localhost:1", "tcp://127.0.0.9:1", "tcp://[::1]:1"])
def test_plain_text_on_this_machine(address: str) -> None:
    check_spec(address, require_tls=True)


def test_a_protocol_that_dask_does_not_know() -> None:
    with pytest.raises(InputError, match="unknown address scheme 'tpc'"), connected("tpc://127.0.0.1:1", notify=SILENT):
        pass


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"address": 1}', '{"address": "here"}'])
def test_files_that_are_no_scheduler_files(content: str, tmp_path: Path) -> None:
    (tmp_path / "scheduler.json").write_text(content)
    refused("scheduler.json", "is not a scheduler file: pass the file that dask scheduler", str(tmp_path))


# Kubernetes


def strict_schema() -> Any:
    """Return the operator's schema of a DaskCluster, with unknown fields as errors."""
    crds = Path(dask_kubernetes.__file__).parent / "operator/deployment/helm/dask-kubernetes-operator/crds"
    definition = yaml.load((crds / "daskcluster.yaml").read_text(), yaml.CSafeLoader)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    # A structural schema leaves out what Kubernetes checks of every object.
    text = {"type": "string"}
    labels = {"type": "object", "additionalProperties": text}
    schema["properties"] |= {"apiVersion": text, "kind": text}
    schema["properties"]["metadata"] = {
        "type": "object",
        "properties": {"name": text, "namespace": text, "labels": labels, "annotations": labels},
    }
    return strict(schema)


def strict(schema: Any) -> Any:
    """Return a schema in which objects may have only the named fields."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string") is True:
        made.pop("type", None)
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    return made


def mistype(content: dict[str, Any], path: tuple[Any, ...], wrong: str) -> dict[str, Any]:
    """Return the manifest with one field renamed."""
    changed = copy.deepcopy(content)
    inner: Any = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[wrong] = inner.pop(path[-1])
    return changed


def test_our_manifest_is_what_the_operator_takes() -> None:
    check_spec(f"kubernetes:{KUBERNETES}")
    validator, ours = jsonschema.Draft202012Validator(strict_schema()), manifest()
    validator.validate(ours)
    container = ("spec", "worker", "spec", "containers", 0)
    for path, wrong in (
        (("spec", "worker", "replicas"), "replica"),
        ((*container, "resources"), "resorces"),
        ((*container, "resources", "limits"), "limit"),
        ((*container, "envFrom", 0, "secretRef"), "secret"),
        ((*container, "env", 0, "valueFrom", "resourceFieldRef"), "fieldRef"),
        (("spec", "worker", "spec", "volumes", 0, "emptyDir", "sizeLimit"), "size"),
        (("spec", "scheduler", "spec", "containers", 0, "readinessProbe", "httpGet"), "http"),
        (("spec", "scheduler", "service", "ports", 0, "targetPort"), "target"),
        (("metadata", "name"), "nam"),
    ):
        assert not validator.is_valid(mistype(ours, path, wrong)), path


def test_our_manifest_fits_together() -> None:
    ours = manifest()
    worker, scheduler = (ours["spec"][role]["spec"]["containers"][0] for role in ("worker", "scheduler"))
    assert worker["image"] == scheduler["image"] == f"dask-rac:{dask_rac.__version__}"
    for container in (worker, scheduler):
        assert container["resources"]["requests"] == container["resources"]["limits"]
    assert ours["spec"]["scheduler"]["service"]["selector"]["dask.org/cluster-name"] == ours["metadata"]["name"]
    environment = {entry["name"] for entry in worker["env"]} | {"DASK_WORKER_NAME"}  # that one by the operator
    assert set(re.findall(r"\$\((\w+)\)", " ".join(worker["args"]))) <= environment
    for container in (worker, scheduler):
        options = [word for word in container["args"][2:] if word.startswith("--")]
        command = [sys.executable, "-m", "dask", container["args"][1], "--help"]
        assert set(options) <= set(re.findall(r"--[\w-]+", subprocess.check_output(command, text=True)))
    assert "SECRET" not in KUBERNETES.read_text().split("\napiVersion")[1].upper().replace("SECRETREF", "")


@pytest.mark.parametrize(
    ("path", "value", "match"),
    [
        ("kind", "Pod", "kind 'Pod', not 'DaskCluster'"),
        ("apiVersion", "v1", "apiVersion 'v1', not 'kubernetes.dask.org/v1'"),
        ("metadata.name", "Rac", "metadata.name 'Rac': use up to 53 lower-case letters"),
        ("metadata", None, "metadata.name None"),
        ("spec.worker.replicas", 0, "spec.worker.replicas 0: use 1 or more"),
        ("spec.worker.replicas", "4", "spec.worker.replicas '4'"),
        ("spec.scheduler.service", None, r"no list spec\.scheduler\.service\.ports"),
        ("spec.worker.spec", {}, r"no list spec\.worker\.spec\.containers"),
    ],
)
def test_manifests_that_cannot_be(path: str, value: Any, match: str, tmp_path: Path) -> None:
    content = manifest()
    *outer, last = path.split(".")
    inner = content
    for key in outer:
        inner = inner[key]
    inner[last] = value
    name = write_yaml(tmp_path / "cluster.yaml", content)
    refused(f"kubernetes:{name}", match, str(tmp_path))


@pytest.mark.parametrize("key", ["kind", "apiVersion"])
def test_endless_values_of_manifests_are_cut_in_messages(key: str, tmp_path: Path) -> None:
    name = write_yaml(tmp_path / "cluster.yaml", manifest() | {key: "x" * 30_000})
    with pytest.raises(InputError, match=f"has {key} 'xxx.*xxx', not") as error:
        check_spec(f"kubernetes:{name}", str(tmp_path))
    assert len(str(error.value)) < 1_000


def test_manifests_that_are_not_yaml(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("kind: DaskCluster\nspec: [1\nname: x\n")
    refused("kubernetes:cluster.yaml", "cluster.yaml, line 3: invalid YAML", str(tmp_path))
    (tmp_path / "cluster.yaml").write_text("- 1\n")
    refused("kubernetes:cluster.yaml", "is not a mapping", str(tmp_path))


def test_the_operator_has_no_tls() -> None:
    refused(f"kubernetes:{KUBERNETES}", "plain text, and TLS is required.*tls://", require_tls=True)


@pytest.mark.parametrize(("package", "extra"), [("dask_kubernetes", "kubernetes"), ("coiled", "coiled")])
def test_packages_that_are_missing(package: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dask_rac.deploy.deployment.find_spec", lambda name: None if name == package else name)
    path = {"kubernetes": KUBERNETES, "coiled": COILED}[extra]
    with pytest.raises(ResourceError, match=rf"pip install 'dask-rac\[{extra}\]'"):
        check_spec(f"{extra}:{path}")


Answer = tuple[int, Any]


@contextmanager
def server(answer: Callable[[str, str, Any], Answer]) -> Iterator[tuple[str, list[tuple[str, str]], list[Any]]]:
    """An HTTP server on this machine: its address, the requests it got, and the bodies of those that posted."""
    requests: list[tuple[str, str]] = []
    bodies: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            path = self.path.split("?")[0].rstrip("/")
            body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or "null")
            requests.append((self.command, path))
            if self.command == "POST":
                bodies.append(body)
            status, content = answer(self.command, path, body)
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = do_PATCH = respond  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Clients may leave before they are answered."""

    with Server(("127.0.0.1", 0), Handler) as http:
        SERVERS.append(f"http://127.0.0.1:{http.server_port}")
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            yield SERVERS[-1], requests, bodies
        finally:
            http.shutdown()
            thread.join()


def kubeconfig(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this server the Kubernetes cluster in use."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", "namespace": "graphs"}}],
        "clusters": [{"name": "here", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": SECRET}}],
    }
    write_yaml(folder / "kubeconfig", content)
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))


CLUSTERS = "/apis/kubernetes.dask.org/v1/namespaces/graphs/daskclusters"
VERSION = {"major": "1", "minor": "30", "gitVersion": "v1.30.0"}


class Operator:
    """Kubernetes' answers when the cluster is created, but its scheduler never starts."""

    def __init__(self, refusal: int = 0, phase: str = "Running", exists: bool = False) -> None:
        self.refusal, self.phase = refusal, phase
        self.made: Any = manifest() | {"status": {"phase": "Running"}} if exists else None

    def answer(self, method: str, path: str, body: Any) -> Answer:
        if path == "/version":
            return 200, VERSION
        if (method, path) == ("POST", CLUSTERS):
            if self.refusal:
                self.made = body if self.refusal == 409 else None  # by another client, just before
                return self.refusal, {"message": "daskclusters is forbidden", "code": self.refusal}
            self.made = body | {"status": {"phase": self.phase}}
            return 201, self.made
        if path.startswith(CLUSTERS):
            return self.about_cluster(method, path.removeprefix(CLUSTERS))
        return 200, {"kind": "List", "apiVersion": "v1", "items": [], "metadata": {}}

    def about_cluster(self, method: str, name: str) -> Answer:
        if name and self.made is None:
            return 404, {"message": "not found", "code": 404}
        found = self.made
        if method == "DELETE":
            self.made = None
        return 200, found if name else {"items": [found] if found else [], "metadata": {}}


def start_kubernetes(operator: Operator, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Any, Any, Any]:
    """Return what happens when the cluster does not start: the error, the notices, the requests, the bodies."""
    notices: list[str] = []
    with server(operator.answer) as (url, requests, bodies):
        kubeconfig(folder, url, monkeypatch)
        with (
            dask.config.set({"rac.start-timeout": "3s", "kubernetes.resource-timeout": 1}),
            pytest.raises(ResourceError) as error,
            connected(f"kubernetes:{KUBERNETES}", notify=notices.append),
        ):
            pass
    assert SECRET not in str(error.value)
    return str(error.value), notices, requests, bodies


def test_a_scheduler_that_does_not_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = Operator()
    message, notices, requests, bodies = start_kubernetes(operator, tmp_path, monkeypatch)
    ours = manifest()
    ours["metadata"]["namespace"] = "graphs"
    assert bodies == [ours]
    assert ("DELETE", f"{CLUSTERS}/dask-rac") in requests
    assert operator.made is None
    assert "/api/v1/namespaces/graphs/pods" in {path for _, path in requests}
    assert "DaskCluster dask-rac did not get a scheduler in time" in message
    assert "rac.start-timeout" in message
    assert notices == ["DaskCluster dask-rac: waiting for the scheduler"]


def test_an_operator_that_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    operator = Operator(phase="Created")
    message, _, requests, _ = start_kubernetes(operator, tmp_path, monkeypatch)
    assert "is the Dask Operator running?" in message
    assert ("DELETE", f"{CLUSTERS}/dask-rac") in requests
    assert capfd.readouterr().err == ""


def test_no_leave_to_create(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    message, notices, requests, _ = start_kubernetes(Operator(refusal=403), tmp_path, monkeypatch)
    assert "cannot be started" in message
    assert "forbidden" in message
    assert ("DELETE", f"{CLUSTERS}/dask-rac") not in requests
    assert len(notices) == 1
    assert capfd.readouterr().err == ""


def test_a_cluster_of_others_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = Operator(exists=True)
    message, _, requests, _ = start_kubernetes(operator, tmp_path, monkeypatch)
    assert "already exists" in message
    assert {method for method, _ in requests} == {"GET"}


def test_a_cluster_that_others_create_just_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, requests, _ = start_kubernetes(Operator(refusal=409), tmp_path, monkeypatch)
    assert ("POST", CLUSTERS) in requests
    assert "DELETE" not in {method for method, _ in requests}


def test_an_interrupt_deletes_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = Operator()
    with server(operator.answer) as (url, requests, _):
        kubeconfig(tmp_path, url, monkeypatch)
        timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt), connected(f"kubernetes:{KUBERNETES}", notify=SILENT):
            pass
        timer.join()
    assert ("POST", CLUSTERS) in requests
    assert ("DELETE", f"{CLUSTERS}/dask-rac") in requests
    assert operator.made is None


class Ready(Operator):
    """Kubernetes' answers when all is well, with a scheduler that listens on this machine."""

    def __init__(self, port: int) -> None:
        super().__init__()
        status = {"phase": "Running", "conditions": [{"type": kind, "status": "True"} for kind in CONDITIONS]}
        ports = [{"name": name, "port": 1, "nodePort": port} for name in ("tcp-comm", "http-dashboard")]
        self.objects = {
            "pods": {"kind": "Pod", "metadata": {"name": "scheduler"}, "spec": {}, "status": status},
            "services": {
                "kind": "Service",
                "metadata": {"name": "dask-rac-scheduler", "namespace": "graphs"},
                "spec": {"type": "NodePort", "ports": ports, "selector": {"dask.org/component": "scheduler"}},
            },
            "nodes": {
                "kind": "Node",
                "metadata": {"name": "node"},
                "status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]},
            },
        }

    def answer(self, method: str, path: str, body: Any) -> Answer:
        if path in DISCOVERY:
            return 200, DISCOVERY[path]
        for plural, found in self.objects.items():
            if path.endswith(f"/{plural}"):
                return 200, {"items": [found | {"apiVersion": "v1"}], "metadata": {}}
            if f"/{plural}/" in path:
                return 200, found | {"apiVersion": "v1"}
        return super().answer(method, path, body)


KINDS = [
    {"name": f"{kind.lower()}s", "singularName": kind.lower(), "kind": kind, "namespaced": kind != "Node"}
    for kind in ("Node", "Pod", "Service")
]
DISCOVERY = {"/api": {"versions": ["v1"]}, "/api/v1": {"resources": KINDS}, "/apis": {"groups": []}}
CONDITIONS = ("Ready", "ContainersReady", "PodScheduled", "Initialized")


def test_a_run_on_kubernetes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notices: list[str] = []
    content = manifest()
    content["spec"]["worker"]["replicas"] = 1
    name = write_yaml(tmp_path / "cluster.yaml", content)
    with processes(tmp_path, "tcp") as (address, _):
        operator = Ready(int(address.rpartition(":")[2]))
        with server(operator.answer) as (url, requests, _), dask.config.set({"rac.start-timeout": "30s"}):
            kubeconfig(tmp_path, url, monkeypatch)
            with connected(f"kubernetes:{name}", base=str(tmp_path), notify=notices.append) as client:
                assert client is not None
                assert client.submit(sum, [1, 2]).result(timeout=30) == 3
                assert operator.made is not None
    assert ("DELETE", f"{CLUSTERS}/dask-rac") in requests
    assert operator.made is None
    assert notices[-1].startswith("dashboard: http://127.0.0.1:")


def test_kubernetes_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        kubeconfig(tmp_path, f"http://127.0.0.1:{closed.getsockname()[1]}", monkeypatch)
        with (
            dask.config.set({"rac.start-timeout": "3s"}),
            pytest.raises(ResourceError, match=r"DaskCluster dask-rac .*kubectl"),
            connected(f"kubernetes:{KUBERNETES}", notify=SILENT),
        ):
            pass
    assert capfd.readouterr().err == ""


# Coiled


def test_options_of_coiled(tmp_path: Path) -> None:
    check_spec(f"coiled:{COILED}", require_tls=True)
    check_spec("coiled:my-cluster")
    refused("coiled:my.cluster/", "my.cluster does not exist", str(tmp_path))
    for key, remedy in (("n_worker", "use n_workers"), ("asynchronous", "see help"), ("zzz", "see help")):
        write_yaml(tmp_path / "c.yaml", {key: 1})
        refused("coiled:c.yaml", f"{key} is not an option of coiled.Cluster: {remedy}", str(tmp_path))
    with dask.config.set({"coiled.protocol": "tcp"}):
        refused(f"coiled:{COILED}", "coiled.protocol", require_tls=True)


def start_coiled(
    answer: Callable[[str, str, Any], Answer], token: str | None, spec: str = f"coiled:{COILED}"
) -> tuple[str, list[tuple[str, str]]]:
    """Return what the user sees when the cluster does not start, and the requests."""
    with (
        server(answer) as (url, requests, _),
        dask.config.set({"coiled.server": url, "coiled.token": token, "rac.start-timeout": "20s"}),
        pytest.raises(ResourceError) as error,
        connected(spec, notify=SILENT),
    ):
        pass
    assert SECRET not in str(error.value)
    assert error.value.__cause__ is None
    return str(error.value), requests


def test_without_a_login() -> None:
    message, requests = start_coiled(lambda *_: (200, {}), None)
    assert message.endswith("coiled login")
    assert requests == []


def test_a_token_that_is_not_valid(capfd: pytest.CaptureFixture[str]) -> None:
    message, requests = start_coiled(lambda *_: (401, {}), SECRET)
    assert message.endswith("coiled login")
    assert requests == [("GET", "/api/v2/user/me")]
    assert capfd.readouterr() == ("", "")


MACHINES = [
    {"name": name, "cores": cores, "memory": 4096 * cores, "gpus": 0, "gpu_name": None, "backend_type": "vm_aws"}
    for name, cores in (("m6i.large", 2), ("m6i.xlarge", 4))
]
MEMBER = {"account": {"id": 1, "slug": "graphs", "active": True}, "is_admin": True, "is_default_account": True}
COILED_ANSWERS = {
    "/api/v2/user/me": {"username": "me"},
    "/api/v2/user/me/memberships": [MEMBER],
    "/api/v2/user/workspace/graphs/dask-config-overrides": {},
    "/api/v1/graphs/backend_options": {"backend": "vm_aws", "options": {"aws_region_name": "us-east-1"}},
    "/api/v1/vm-types": {"results": MACHINES, "next": None},
    "/api/v2/interactions/interaction": {},
}


def test_coiled_gets_our_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    posted: list[Any] = []

    def answer(_: str, path: str, body: Any) -> Answer:
        if path in COILED_ANSWERS:
            return 200, COILED_ANSWERS[path]
        posted.append((path, body))
        return 403, {"message": f"{SECRET} has no budget left"}

    # A named environment: copying this one would query package indexes.
    options = yaml.safe_load(COILED.read_text()) | {"software": "graphs/rac"}
    write_yaml(tmp_path / "cluster.yaml", options)
    message, requests = start_coiled(answer, SECRET, f"coiled:{tmp_path / 'cluster.yaml'}")
    assert "… has no budget left" in message
    assert [path for path, _ in posted] == ["/api/v2/clusters/account/graphs"]
    assert requests[-2:] == [
        ("POST", "/api/v2/clusters/account/graphs"),
        ("POST", "/api/v2/interactions/interaction"),  # reports the failure
    ]
    body = posted[0][1]
    assert (body["workers"], body["worker_options"], body["worker_disk_size"]) == (8, {"nthreads": 4}, 64)
    assert capfd.readouterr() == ("", "")
