"""Workers that run modules in parallel: forked from one process that has collected the tests.

`pytest --workers 10` collects once. Each worker then takes the next part (`workers.parts`) from a queue when
it has nothing to do, and sends its reports to the process that started it. Collecting thousands of tests
takes seconds of CPU time, which workers that start empty would each spend for themselves.
"""

from __future__ import annotations

import atexit
import os
import random
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
import pytest
from _pytest._io import TerminalWriter

from workers import parts

VARIABLE = "TEST_WORKER"
"""Names the worker, for its tests."""
_TOKEN = 4
_INTERRUPTED = 2
_PATIENCE_S = 30.0
Part = Sequence[pytest.Item]


class Queue:
    """The numbers of all parts, in a pipe that every worker reads from."""

    def __init__(self, parts: int) -> None:
        self._read, write = os.pipe()
        tokens = b"".join(number.to_bytes(_TOKEN, "little") for number in range(parts))
        os.set_blocking(write, False)
        assert os.write(write, tokens) == len(tokens), "more parts than a pipe has room for"
        os.close(write)

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers that no other worker has taken."""
        while token := os.read(self._read, _TOKEN):
            yield int.from_bytes(token, "little")

    def close(self) -> None:
        """Close this process's end of the pipe."""
        os.close(self._read)


class Between:
    """What comes after the last test of a part: the session, whose fixtures stay, and nothing of a module."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session

    def listchain(self) -> list[pytest.Session]:
        """Return what stays set up."""
        return [self._session]


class Mute:
    """A reporter without hooks: stacks of a test that hangs go to the error output."""

    def __init__(self) -> None:
        self._tw = TerminalWriter(sys.__stderr__)


class Sender:
    """Sends what a worker reports to the process that started it."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Say which test is next, in case that it ends the worker."""
        self._connection.send(("begin", nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: object
    ) -> None:
        """Send a warning, as text: its class may not be known where it arrives."""
        message = warning_message
        text = f"{message.category.__name__}: {message.message}"
        self._connection.send(("warning", (text, message.filename, message.lineno, when, nodeid)))


class Worker:
    """A forked process, and what is known of it."""

    def __init__(self, number: int, pid: int, reports: Connection) -> None:
        self.name = f"w{number}"
        self.pid = pid
        self.reports = reports
        self.test = ""
        """The test that it has begun, or had."""


class Forks:
    """A plugin of pytest that runs the tests in forked workers."""

    def __init__(self, workers: int, prepare: Callable[[], None] = lambda: None) -> None:
        self._count = workers
        self._prepare = prepare
        """Called once, after the tests are collected and before the first worker starts."""
        self._workers: list[Worker] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run everything; what ends a run before its first test is left to pytest."""
        if session.testsfailed or session.config.option.collectonly:
            return None
        self._prepare()
        assert "polars" not in sys.modules, (
            "Polars starts threads, which a fork does not copy: import it in tests"
        )
        assert threading.active_count() == 1, f"a module started threads: {threading.enumerate()}"
        units = parts(session.items)
        queue = Queue(len(units))
        base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        try:
            for number in range(min(self._count, len(units))):
                (place := base / f"w{number}").mkdir(mode=0o700)
                self._workers.append(_fork(session, number, units, queue, place))
            queue.close()
            self._follow(session)
        finally:
            self._end()
        return True

    def _follow(self, session: pytest.Session) -> None:
        """Report what the workers report until all have ended."""
        while self._workers:
            of = {worker.reports: worker for worker in self._workers}
            for connection in wait(list(of)):
                assert isinstance(connection, Connection)
                try:
                    kind, content = connection.recv()
                except (EOFError, OSError):
                    self._ended(session, of[connection])
                else:
                    _received(session.config, of[connection], kind, content)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)

    def _ended(self, session: pytest.Session, worker: Worker) -> None:
        """Fail the test that a worker died in."""
        self._workers.remove(worker)
        code = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if code:
            why = f"worker {worker.name} ended with {code}; the rest of its module was not run"
            where = (worker.test.partition("::")[0], None, worker.test)
            report = pytest.TestReport(worker.test, where, {}, "failed", why, "call")
            session.config.hook.pytest_runtest_logreport(report=report)

    def _end(self) -> None:
        """Interrupt the workers that are left, so that they end what they started."""
        for worker in self._workers:
            os.kill(worker.pid, signal.SIGINT)
        for worker in self._workers:
            while worker.reports.poll(_PATIENCE_S):
                try:
                    worker.reports.recv()
                except (EOFError, OSError):
                    break
            else:
                os.kill(worker.pid, signal.SIGKILL)
            os.waitpid(worker.pid, 0)
        self._workers.clear()


def _received(config: pytest.Config, worker: Worker, kind: str, content: Any) -> None:
    """Pass on what a worker sent."""
    if kind == "begin":
        worker.test = content
    elif kind == "warning":
        text, filename, line, when, nodeid = content
        message = warnings.WarningMessage(text, Warning, filename, line)
        config.hook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": message, "when": when, "nodeid": nodeid, "location": None}
        )
    else:
        report = config.hook.pytest_report_from_serializable(config=config, data=content)
        config.hook.pytest_runtest_logreport(report=report)
        if report.when == "teardown":
            config.hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)


def _fork(
    session: pytest.Session, number: int, units: Sequence[Part], queue: Queue, place: os.PathLike[str]
) -> Worker:
    ours, theirs = Pipe(duplex=False)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        theirs.close()
        return Worker(number, pid, ours)
    code = 1
    try:
        ours.close()
        _separate(session.config, number, place)
        code = _work(session, units, queue, theirs)
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


def _separate(config: pytest.Config, number: int, place: os.PathLike[str]) -> None:
    """Give a worker what it must not share: its output, its folder, its random numbers."""
    os.environ[VARIABLE] = f"w{number}"
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    config._tmp_path_factory._basetemp = place  # type: ignore[attr-defined]
    reporter = config.pluginmanager.getplugin("terminalreporter")
    config.pluginmanager.unregister(reporter)
    config.pluginmanager.register(Mute(), "terminalreporter")
    random.seed()
    np.random.seed()


def _work(session: pytest.Session, units: Sequence[Part], queue: Queue, reports: Connection) -> int:
    """Run one part after the other until there are none left, and return the exit code."""
    session.config.pluginmanager.register(Sender(session.config, reports))
    between: Any = Between(session)
    try:
        for number in queue:
            for item, following in zip_longest(units[number], units[number][1:]):
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=following or between)
        return 0
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return _INTERRUPTED
    finally:
        session._setupstate.teardown_exact(None)
        atexit._run_exitfuncs()
        reports.close()
