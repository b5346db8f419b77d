"""An account's limits refuse what nats-server refuses, with its codes."""

from __future__ import annotations

import pytest

from headwater.control.account import AccountLimits, reserved
from headwater.errors import ApiError
from headwater.model.stream import Storage, StreamConfig
from headwater.settings import Settings

FILE = StreamConfig(name="f", max_bytes=600)
MEMORY = StreamConfig(name="m", max_bytes=300, storage=Storage.MEMORY)
OPEN = StreamConfig(name="o")


def test_only_streams_with_max_bytes_reserve_space_of_their_kind() -> None:
    assert reserved(Storage.FILE, [FILE, MEMORY, OPEN]) == 600
    assert reserved(Storage.MEMORY, [FILE, MEMORY, OPEN]) == 300


def test_the_settings_give_the_limits() -> None:
    limits = AccountLimits.of(Settings(max_memory_bytes=5, max_storage_bytes=7))
    assert (limits.max_memory, limits.max_storage) == (5, 7)


@pytest.mark.parametrize(
    ("limits", "config", "err_code"),
    [
        (AccountLimits(max_storage=1000), FILE, 10047),
        (AccountLimits(max_storage=600), OPEN, 10047),
        (AccountLimits(max_memory=500), MEMORY, 10028),
        (AccountLimits(max_consumers=3), StreamConfig(name="c", max_consumers=4), 10026),
    ],
)
def test_a_stream_that_asks_for_more_than_is_left_is_refused(
    limits: AccountLimits, config: StreamConfig, err_code: int
) -> None:
    with pytest.raises(ApiError) as refused:
        limits.check_space(config, [FILE, MEMORY])
    assert refused.value.err_code == err_code


def test_a_stream_that_fits_exactly_is_accepted() -> None:
    AccountLimits(max_storage=1200, max_memory=600).check_space(FILE, [FILE, MEMORY])
    AccountLimits().check_space(FILE, [FILE] * 1000)


def test_one_stream_too_many_is_refused() -> None:
    AccountLimits(max_streams=2).check_count(1)
    with pytest.raises(ApiError) as refused:
        AccountLimits(max_streams=2).check_count(2)
    assert refused.value.err_code == 10027


@pytest.mark.parametrize(
    ("limits", "config", "err_code"),
    [
        (AccountLimits(max_bytes_required=True), OPEN, 10113),
        (AccountLimits(storage_max_stream_bytes=500), FILE, 10122),
        (AccountLimits(memory_max_stream_bytes=200), MEMORY, 10122),
        (AccountLimits(storage_max_stream_bytes=500), OPEN, 10113),
    ],
)
def test_each_stream_has_to_stay_within_its_share(
    limits: AccountLimits, config: StreamConfig, err_code: int
) -> None:
    with pytest.raises(ApiError) as refused:
        limits.check_config(config)
    assert refused.value.err_code == err_code


def test_as_many_replicas_may_be_asked_for_as_the_settings_say() -> None:
    limits = AccountLimits.of(Settings(max_replicas=3))
    limits.check_replicas(StreamConfig(name="S", num_replicas=3))
    kept = AccountLimits.of(Settings(), copies=3)
    kept.check_replicas(StreamConfig(name="S", num_replicas=3))
    for refused, replicas in ((limits, 4), (AccountLimits(), 2), (kept, 5)):
        with pytest.raises(ApiError) as error:
            refused.check_replicas(StreamConfig(name="S", num_replicas=replicas))
        assert error.value.err_code == 10074
