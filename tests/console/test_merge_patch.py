"""Merge patches: what is sent is enough to get from one state to the next."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headwater.console.merge_patch import merge_patch

values = st.recursive(
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


def applied(before: Any, patch: Any) -> Any:
    """Apply a merge patch as RFC 7396 describes it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = applied(result.get(key), value)
    return result


@given(objects, objects)
def test_a_patch_turns_one_state_into_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert applied(before, merge_patch(before, after)) == after


@given(objects)
def test_nothing_changed_is_an_empty_patch(state: dict[str, Any]) -> None:
    assert merge_patch(state, state) == {}
