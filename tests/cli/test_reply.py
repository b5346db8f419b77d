"""`headwater reply`: what requests are answered with."""

from __future__ import annotations

import signal

import pytest

from headwater.cli.received import Received
from headwater.cli.reply import Answers
from headwater.errors import SettingsError
from jetstreams import Shell

REQUEST = Received("weather.oslo", b"how", "inbox", {"k": "v"})


async def test_without_a_body_the_request_comes_back() -> None:
    data, headers = await Answers(None, "", ["a: {{Count}}"], echo=False).to(REQUEST, 3)
    assert (data, headers) == (b"how", {"k": "v", "a": "3", "NATS-Reply-Counter": "3"})


async def test_a_body_may_speak_of_the_request() -> None:
    data, headers = await Answers("{{Request}} #{{Count}}", "", [], echo=False).to(REQUEST, 1)
    assert (data, headers) == (b"how #1", {})


async def test_a_command_is_run_with_the_request_without_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert (await Answers(None, "echo {{1}} {{Request}}", [], echo=False).to(REQUEST, 1))[0] == b"oslo how\n"
    nasty = Received("weather.$(id)", b"; id", "inbox")
    answer, _ = await Answers(None, "echo {{1}} {{.Request}}", [], echo=False).to(nasty, 1)
    assert answer == b"$(id) ; id\n"
    command = "sh -c 'echo $NATS_REQUEST_SUBJECT $NATS_REQUEST_BODY; exit 3'"
    assert (await Answers(None, command, [], echo=False).to(REQUEST, 1))[0] == b"weather.oslo how\n"
    assert "failed with exit code 3" in capsys.readouterr().err
    assert (await Answers(None, "no-such-command-here", [], echo=False).to(REQUEST, 1))[0] == b""
    assert "failed to run" in capsys.readouterr().err


def test_two_ways_to_answer_are_refused() -> None:
    with pytest.raises(SettingsError, match="choose one answer"):
        Answers("body", "date", [], echo=False)


def test_requests_are_shown_and_answered_until_ctrl_c(shell: Shell, name: str) -> None:
    with shell.beside("Listening on", "reply", f"svc.{name}", "--echo", "--sleep", "1ms") as process:
        assert shell.ok("req", f"svc.{name}", "hi", "--raw") == "hi\n"
        shell.ok("pub", f"svc.{name}", "nobody waits", "-q")
        assert shell.ok("req", f"svc.{name}", "again", "--raw") == "again\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    requests = ["hi", "nobody waits", "again"]
    assert out == "".join(
        f'[#{place}] Received on subject "svc.{name}":\n\n{data}\n' for place, data in enumerate(requests)
    )
