"""Subject transforms, each function with the answers nats-server gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import transform
from headwater.model.transform import SubjectTransform, TransformError, check_mapping, fnv1a


@pytest.mark.parametrize(
    ("src", "dest", "subject", "transformed"),
    [
        ("a.*.*", "x.$2.$1", "a.1.2", "x.2.1"),
        ("a.*.*", "x.{{wildcard(2)}}.{{Wildcard( 1 )}}", "a.1.2", "x.2.1"),
        ("a.>", "b.>", "a.1.2", "b.1.2"),
        (">", "b.>", "a.1", "b.a.1"),
        ("", "b.>", "a.1", "b.a.1"),
        ("a.>", ">", "a.1", "1"),
        (">", ">", "a.1", "a.1"),
        ("a", "b", "a", "b"),
        ("a", "$x.b", "a", "$x.b"),
        ("a.*", "", "a.1", "a.1"),
        ("a.*.>", "b.>", "a.1.2.3", "b.2.3"),
        ("*", "{{split(1,-)}}", "a-b--c-", "a.b.c"),
        ("*", "{{split(1,-)}}", "-a", "a"),
        ("*", "{{splitfromleft(1,2)}}", "abcde", "ab.cde"),
        ("*", "{{SplitFromRight(1,2)}}", "abcde", "abc.de"),
        ("*", "{{splitFromLeft(1,5)}}", "abcde", "abcde"),
        ("*", "{{slicefromleft(1,2)}}", "abcde", "ab.cd.e"),
        ("*", "{{slicefromright(1,2)}}", "abcde", "a.bc.de"),
        ("*", "{{sliceFromRight(1,2)}}", "abcd", "ab.cd"),
        ("*", "{{left(1,2)}}", "abc", "ab"),
        ("*", "{{right(1,2)}}", "abc", "bc"),
        ("*", "{{right(1,0)}}", "abc", "abc"),
        ("*", "p.{{partition(0,1)}}", "abc", "p.0"),
        ("*", "p.{{random(1)}}", "abc", "p.0"),
    ],
)
def test_each_function_makes_its_part(src: str, dest: str, subject: str, transformed: str) -> None:
    assert SubjectTransform(src, dest).apply(subject.encode()) == transformed.encode()


@pytest.mark.parametrize(("src", "subject"), [("a.*", b"a"), ("a", b"b"), ("a.*", b"a.1.2"), ("a.>", b"a")])
def test_a_subject_that_is_not_taken_is_none(src: str, subject: bytes) -> None:
    dest = "x.>" if src.endswith(">") else "x"
    assert SubjectTransform(src, dest).apply(subject) is None
    assert SubjectTransform(src, "").apply(subject) is None


def test_partitions_are_the_fnv_hash_of_the_picked_tokens() -> None:
    assert fnv1a(b"") == 0x811C9DC5
    assert fnv1a(b"foobar") == 0xBF9CF968
    tokens = SubjectTransform("a.*.*", "{{partition(10,1,2)}}.$1")
    assert tokens.apply(b"a.foo.bar") == b"%d.foo" % (0xBF9CF968 % 10)
    whole = SubjectTransform("foobar", "{{partition(10)}}")
    assert whole.apply(b"foobar") == b"%d" % (0xBF9CF968 % 10)


@pytest.mark.parametrize(
    ("src", "dest", "complaint"),
    [
        ("a.*", "x.*", "invalid subject"),
        ("a.>", "x", "invalid subject"),
        ("a", "x.>", "invalid subject"),
        ("a..b", "x", "invalid subject"),
        ("a", "x..y", "invalid mapping destination: invalid transform"),
        ("a.>", "x.>.y", "invalid mapping destination: invalid transform in y"),
        ("a", "x y", "invalid mapping destination: invalid transform"),
        ("a.*", "x.$2", "invalid mapping destination: wildcard index out of range in $2: [2]"),
        ("a", "x.$1", "invalid mapping destination: wildcard index out of range in $1"),
        ("a.*", "{{foo(1)}}", "invalid mapping destination: unknown function in {{foo(1)}}"),
        ("a.*", "{{WILDCARD(1)}}", "invalid mapping destination: unknown function in {{WILDCARD(1)}}"),
        (
            "a.*",
            "{{wildcard()}}",
            "invalid mapping destination: not enough arguments passed to the function in {{wildcard()}}",
        ),
        (
            "a.*",
            "{{wildcard(1,2)}}",
            "invalid mapping destination: too many arguments passed to the function in {{wildcard(1,2)}}",
        ),
        (
            "a.*",
            "{{partition(x)}}",
            "invalid mapping destination: function argument is invalid or in the wrong format in {{partition(x)}}",  # noqa: E501
        ),
        (
            "a.*",
            "{{split(1)}}",
            "invalid mapping destination: not enough arguments passed to the function in {{split(1)}}",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_nats_servers_words(src: str, dest: str, complaint: str) -> None:
    with pytest.raises(TransformError) as caught:
        check_mapping(src, dest)
    assert str(caught.value) == complaint


def test_an_empty_destination_is_always_fine() -> None:
    check_mapping("a..b", "")


@given(st.lists(st.sampled_from(["a", "b", "cd"]), min_size=3, max_size=5))
def test_wildcards_permute_tokens(tokens: list[str]) -> None:
    mapping = SubjectTransform("*.*.*.>", "$3.x.$1.$2.>")
    out = mapping.apply(".".join(tokens).encode())
    if len(tokens) == 3:
        assert out is None
    else:
        assert out == ".".join([tokens[2], "x", tokens[0], tokens[1], *tokens[3:]]).encode()


def test_random_stays_random_and_in_range() -> None:
    mapping = SubjectTransform("a", "{{random(3)}}")
    assert {mapping.apply(b"a") for _ in range(200)} == {b"0", b"1", b"2"}


def test_the_memory_of_a_transform_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transform, "_CACHE_LIMIT", 3)
    mapping = SubjectTransform("a.*", "b.$1")
    for n in range(10):
        assert mapping.apply(b"a.%d" % n) == b"b.%d" % n
        assert len(mapping._cache) <= 3
