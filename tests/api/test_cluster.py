"""What only a cluster serves is refused."""

from __future__ import annotations

from typing import cast

import pytest

from headwater.api.cluster import refuse
from headwater.api.context import ApiContext
from headwater.api.request import Request
from headwater.errors import ApiError


async def test_the_refusal_names_the_missing_cluster() -> None:
    request = Request("STREAM.PEER.REMOVE.S", "S", "", b"", b"", b"")
    with pytest.raises(ApiError, match="clustering support required") as refused:
        await refuse(cast(ApiContext, None), request)
    assert (refused.value.code, refused.value.err_code) == (503, 10010)
