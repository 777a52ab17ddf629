"""Ctrl-C is answered at once, even during a long kernel, and pressed again it ends the command at once."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import psutil
import pytest

import dask_rac
from dask_rac.base.clusters import cluster_to_stop, clusters_to_stop
from dask_rac.cli.shell import Shell
from dask_rac.cli.stopping import Interrupts
from tests.support.command import environment
from tests.support.terminal import Terminal

SOON = 2.0  # seconds of its own work, which on a busy machine pass as slowly as all else; 0.2 will do, a step takes 120
SLOW = """
import hashlib, signal, sys, time
from dask_rac.cli.entry import main
from dask_rac.runs.loop import StoredRun

signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell start with it ignored
advance = StoredRun._advance

def slow(run, state):
    if run.chain[-1].step == 1:
        began = time.perf_counter()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 100_000)
        iterations = int(100_000 * float(sys.argv[1]) / (time.perf_counter() - began))
        sys.stderr.write("busy\\n")
        sys.stderr.flush()
        hashlib.pbkdf2_hmac("sha256", b"", b"", iterations)  # without the GIL, and deaf to signals, as kernels are
    advance(run, state)

StoredRun._advance = slow
main(sys.argv[2:], prog_name="dask-rac")
"""
LONG, SHORT = 120.0, 3.0  # seconds


class Slow:
    """A command with a long step, and what it says."""

    def __init__(self, script: str, argument: object, words: Sequence[str], cwd: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, str(argument), *words],
            cwd=cwd,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._seen = psutil.Process(self.process.pid)

    def line(self) -> str:
        """Return the next line of standard error; nothing if the command has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def press(self) -> float:
        """Press Ctrl-C once the step is under way; return how much it had worked by then."""
        time.sleep(0.3)
        os.killpg(self.process.pid, signal.SIGINT)
        return self.worked()

    def worked(self) -> float:
        """Return the seconds that a processor has worked for the command, which may have ended."""
        times = self._seen.cpu_times()
        return float(times.user + times.system)

    def end(self) -> tuple[int, str]:
        """Return the exit code and the rest of standard error."""
        errors = self.process.communicate(timeout=60)[1]
        return self.process.returncode, errors


WORDS = ("cluster", "edges", "-o", "run", "--shards", "2", "--no-finisher", "--quiet")
STOPPING = "dask-rac: stopping as soon as the current step ends; afterwards "
AGAIN = "; press Ctrl-C again to stop at once\n"


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    """A run that is in a long step."""
    dask_rac.datasets.lattice(2_000, 8, 0, tmp_path / "edges", progress=False)
    command = Slow(SLOW, LONG, WORDS, tmp_path)
    try:
        assert command.line() == "busy\n", command.end()
        yield command
    finally:
        command.process.kill()
        command.process.wait()


def test_ctrl_c_is_answered_during_a_kernel_and_ends_the_command_when_pressed_again(slow: Slow, tmp_path: Path) -> None:
    worked = slow.press()
    assert slow.line() == f"{STOPPING}resume with `dask-rac resume run`{AGAIN}"
    assert slow.worked() - worked < SOON
    assert slow.process.poll() is None
    worked = slow.press()
    assert slow.line() == "dask-rac: stopped at once; resume with `dask-rac resume run`\n"
    assert slow.line() == ""
    assert slow.worked() - worked < SOON
    assert slow.end() == (130, "")
    assert dask_rac.resume(tmp_path / "run", progress=False).verify().ok


def test_pressed_once_the_step_ends_first(tmp_path: Path) -> None:
    dask_rac.datasets.lattice(2_000, 8, 0, tmp_path / "edges", progress=False)
    (tmp_path / "slow.yaml").write_text("steps:\n  cluster: {edges: edges, shards: 2, finisher: false}\n")
    command = Slow(SLOW, SHORT, ("run", "slow.yaml"), tmp_path)
    assert command.line() == "busy\n", command.end()
    command.press()
    assert command.line() == f"{STOPPING}continue with `dask-rac run slow.yaml`{AGAIN}"
    assert command.end() == (130, "dask-rac: stopped in step 'cluster'; continue with `dask-rac run slow.yaml`\n")


IGNORED = """
import ctypes, signal, sys, time
from dask_rac.cli.entry import main
from dask_rac.runs.loop import StoredRun

signal.signal(signal.SIGINT, signal.default_int_handler)

@ctypes.CFUNCTYPE(None)
def wait():  # an interrupt in a function that C calls is lost, as in a compiler
    sys.stderr.write("busy\\n")
    sys.stderr.flush()
    time.sleep(60)

def advance(run, state):
    wait()
    if sys.argv[1] == "error":
        raise RuntimeError("no compiled object yet")
    time.sleep(60)

StoredRun._advance = advance
main(sys.argv[2:], prog_name="dask-rac")
"""


@pytest.mark.parametrize("outcome", ["error", "wait"])
def test_an_interrupt_that_c_has_dropped_stops_the_command_all_the_same(tmp_path: Path, outcome: str) -> None:
    dask_rac.datasets.lattice(2_000, 8, 0, tmp_path / "edges", progress=False)
    command = Slow(IGNORED, outcome, WORDS, tmp_path)
    assert command.line() == "busy\n", command.end()
    command.press()
    code, errors = command.end()
    assert code == 130
    assert "bug" not in errors
    assert "Traceback" not in errors
    assert "dask-rac: stopped; resume with `dask-rac resume" in errors.splitlines()[-1]


class TestInterrupts:
    """The parts, in this process, which keeps its own handler."""

    @pytest.fixture(autouse=True)
    def handler(self) -> Iterator[None]:
        before = signal.signal(signal.SIGINT, lambda *_: None)
        yield
        signal.signal(signal.SIGINT, before)

    @pytest.fixture
    def shell(self) -> mock.Mock:
        return mock.Mock(spec=Shell, continuation=str)

    @staticmethod
    def press(shell: mock.Mock, answers: int) -> str:
        """Press Ctrl-C; return the last of so many answers."""
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(300):
            if shell.answer.call_count >= answers:
                return str(shell.answer.call_args.args[0])
            time.sleep(0.01)
        raise AssertionError(shell.mock_calls)

    def test_again_ends_the_process(self, shell: mock.Mock) -> None:
        with mock.patch("os._exit") as ended, Interrupts(shell):
            assert (
                self.press(shell, 1) == "stopping as soon as the current step ends; press Ctrl-C again to stop at once"
            )
            assert not ended.called
            assert self.press(shell, 2) == "stopped at once"
        ended.assert_called_once_with(130)

    def test_a_cluster_that_was_started_is_stopped_first(self, shell: mock.Mock) -> None:
        with mock.patch("os._exit") as ended, Interrupts(shell), cluster_to_stop("DaskCluster x"):
            assert self.press(shell, 1) == "stopping as soon as the current step ends"
            assert "waiting until DaskCluster x has been stopped" in self.press(shell, 2)
        assert not ended.called
        assert not clusters_to_stop()

    def test_a_command_that_ends_soon_says_so_itself(self, shell: mock.Mock) -> None:
        with Interrupts(shell):
            os.kill(os.getpid(), signal.SIGINT)
        assert not shell.answer.called

    def test_other_signals_and_other_threads_are_left_alone(self, shell: mock.Mock) -> None:
        def elsewhere() -> None:
            with Interrupts(shell):
                found.append(signal.SIGINT)

        found: list[int] = []
        other = threading.Thread(target=elsewhere)
        other.start()
        other.join()
        before = signal.signal(signal.SIGUSR1, lambda *_: None)
        with Interrupts(shell):
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.3)
        signal.signal(signal.SIGUSR1, before)
        assert found == [signal.SIGINT]
        assert not shell.answer.called
        assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.soak
def test_a_terminal_shows_the_answer_above_the_bar(tmp_path: Path) -> None:
    dask_rac.datasets.lattice(300_000, 20, 0, tmp_path / "edges", progress=False)
    terminal = Terminal("cluster", "edges", "-o", "run", cwd=tmp_path)
    pressed: list[list[str]] = []

    def press(screen: list[str]) -> None:
        if not pressed and any("round" in line for line in screen):
            os.killpg(terminal.process.pid, signal.SIGINT)
            pressed.append(screen)

    screen = " ".join(terminal.watch(press))
    assert terminal.process.returncode == 130
    assert "dask-rac: stopped" in screen
