"""Questions about a new consumer, for options that no flag sets."""

from __future__ import annotations

from headwater.cli import ask
from headwater.cli.consumer.config import ACKS, REPLAYS, set_backoff, set_filters, set_start
from headwater.cli.phrases import read_duration
from headwater.cli.session import Json
from headwater.errors import SettingsError
from headwater.model.names import valid_asset_name


def ask_name() -> str:
    """Return the name of a new consumer."""

    def read(name: str) -> str:
        if not valid_asset_name(name):
            raise ValueError("enter a name without spaces, dots and wildcards")
        return name

    return str(ask.text("Consumer name", read=read))


def complete(config: Json, *, pull: bool = False) -> Json:
    """Return the config with answers for all missing keys, in the nats command's order."""
    answered = dict(config)
    if not pull and not answered.get("deliver_subject"):
        answered["deliver_subject"] = ask.text("Delivery target (empty for Pull Consumers)")
    pushes = bool(answered.get("deliver_subject"))
    if pushes and "deliver_group" not in answered:
        answered["deliver_group"] = ask.text("Delivery Queue Group")
    if "deliver_policy" not in answered:
        ask.text(
            "Start policy (all, new, last, subject, 1h, msg sequence)", "all", lambda t: _begin(answered, t)
        )
    if "ack_policy" not in answered:
        answered["ack_policy"] = ask.choice("Acknowledgment policy", ACKS, "none" if pushes else "explicit")
    if "replay_policy" not in answered:
        answered["replay_policy"] = ask.choice("Replay policy", REPLAYS, "instant")
    if not answered.get("filter_subject") and not answered.get("filter_subjects"):
        set_filters(answered, ask.text("Filter Stream by subjects (blank for all)").replace(",", " ").split())
    if answered["ack_policy"] != "none":
        _about_acks(answered)
    if pushes:
        _about_pushes(answered)
    if "headers_only" not in answered:
        answered["headers_only"] = ask.yes("Deliver headers only without bodies")
    if answered["ack_policy"] != "none" and "backoff" not in answered:
        _about_retries(answered)
    return answered


def _about_acks(answered: Json) -> None:
    if "max_deliver" not in answered:
        answered["max_deliver"] = ask.text("Maximum Allowed Deliveries", "-1", int)
    if "max_ack_pending" not in answered:
        answered["max_ack_pending"] = ask.text("Maximum Acknowledgments Pending", "0", int)


def _about_pushes(answered: Json) -> None:
    if "idle_heartbeat" not in answered:
        answered["idle_heartbeat"] = ask.text("Idle Heartbeat", "0s", _lasting)
    if "flow_control" not in answered:
        answered["flow_control"] = ask.yes("Enable Flow Control, ie --flow-control")


def _about_retries(answered: Json) -> None:
    if not ask.yes("Add a Retry Backoff Policy"):
        return
    if ask.choice("Backoff policy", ("linear", "none"), "none") == "none":
        return
    shortest = ask.text("Minimum retry time", "1m", read_duration)
    longest = ask.text("Maximum retry time", "10m", read_duration)
    set_backoff(answered, ask.text("Number of steps to generate in the policy", "20", int), shortest, longest)


def _begin(answered: Json, start: str) -> None:
    try:
        set_start(answered, start)
    except SettingsError as error:
        raise ValueError(str(error)) from None


def _lasting(text: str) -> int:
    return 0 if text == "0s" else read_duration(text)
