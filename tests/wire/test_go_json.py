"""Bodies are parsed as by Go, and refused with Go's texts as a real nats-server sends them."""

from __future__ import annotations

import pytest

from headwater.errors import ApiError
from headwater.wire import go_json
from headwater.wire.go_json import array, boolean, enum, int32, int64, string, struct, uint64

ENTRY = struct({"name": string}, "server.Entry")
FIELDS = {
    "name": string,
    "max_msgs": int64,
    "max_msg_size": int32,
    "first_seq": uint64,
    "sealed": boolean,
    "subjects": array(string, "[]string", null=""),
    "entry": ENTRY,
    "entries": array(ENTRY, "[]*server.Entry", null=None),
    "at": go_json.time,
    "retention": enum({"limits": 1, "interest": 2}),
    "discard": enum({"old": 1}, any_case=True),
    "compression": enum({"none": 1}, complaint="unknown compression algorithm"),
    "metadata": go_json.string_map,
}


def read(body: str) -> dict[str, object]:
    return go_json.decode(body.encode(), FIELDS, "Request")


@pytest.mark.parametrize(
    ("body", "members"),
    [
        ("", {}),
        (" \n", {}),
        ("null", {}),
        ('{"name":"S"}', {"name": "S"}),
        ('{"NAME":"S","Max_Msgs":7}', {"name": "S", "max_msgs": 7}),
        ('{"max_msgs":3,"Max_Msgs":4}', {"max_msgs": 4}),
        ('{"name":"S"} {"max_msgs":5}', {"name": "S", "max_msgs": 5}),
        ('{"name":null,"max_msgs":null,"entry":null,"subjects":null,"metadata":null}', {}),
        ('{"subjects":["a",null]}', {"subjects": ("a", "")}),
        ('{"entries":[{"name":"a"},null]}', {"entries": ({"name": "a"}, None)}),
        ('{"first_seq":18446744073709551615}', {"first_seq": 2**64 - 1}),
        ('{"discard":"OLD"}', {"discard": 1}),
        ('{"metadata":{"a":null,"B":"c"}}', {"metadata": {"a": "", "B": "c"}}),
        ('{"at":"1970-01-01T00:00:01.5Z"}', {"at": 1_500_000_000}),
    ],
)
def test_lenient_where_go_is(body: str, members: dict[str, object]) -> None:
    assert read(body) == members


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("{", "unexpected EOF"),
        ('{"name":"S', "unexpected EOF"),
        ("nul", "unexpected EOF"),
        ('{"name":"S",}', "invalid character '}' looking for beginning of object key string at offset 13"),
        ('{"name":"S"} x', "invalid character 'x' looking for beginning of value at offset 14"),
        ('{"name":"S" "a"}', "invalid character '\"' after object key:value pair at offset 13"),
        ('{name:"S"}', "invalid character 'n' looking for beginning of object key string at offset 2"),
        ("{'a':1}", "invalid character '\\'' looking for beginning of object key string at offset 2"),
        ("[]", "json: cannot unmarshal array into Go value of type server.Request"),
        ("5", "json: cannot unmarshal number into Go value of type server.Request"),
        ('{"x":1}', 'json: unknown field "x"'),
        ('{"entry":{"domain":"d"}}', 'json: unknown field "domain"'),
        ('{"x":1,"max_msgs":"a"}', 'json: unknown field "x"'),
        ('{"name":5}', "json: cannot unmarshal number into Go struct field Request.name of type string"),
        (
            '{"max_msgs":"a","x":1}',
            "json: cannot unmarshal string into Go struct field Request.max_msgs of type int64",
        ),
        (
            '{"max_msgs":5.0}',
            "json: cannot unmarshal number 5.0 into Go struct field Request.max_msgs of type int64",
        ),
        (
            '{"max_msgs":1e3}',
            "json: cannot unmarshal number 1e3 into Go struct field Request.max_msgs of type int64",
        ),
        (
            '{"max_msg_size":3000000000}',
            "json: cannot unmarshal number 3000000000 into Go struct field Request.max_msg_size of type int32",  # noqa: E501
        ),
        (
            '{"first_seq":-1}',
            "json: cannot unmarshal number -1 into Go struct field Request.first_seq of type uint64",
        ),
        (
            '{"max_msgs":true}',
            "json: cannot unmarshal bool into Go struct field Request.max_msgs of type int64",
        ),
        ('{"sealed":"x"}', "json: cannot unmarshal string into Go struct field Request.sealed of type bool"),
        (
            '{"subjects":"a"}',
            "json: cannot unmarshal string into Go struct field Request.subjects of type []string",
        ),
        ('{"subjects":[1]}', "json: cannot unmarshal number into Request.subjects.0 of type string"),
        (
            '{"entries":[{"name":5}]}',
            "json: cannot unmarshal number into Go struct field Request.entries.0.name of type string",
        ),
        (
            '{"entry":"x"}',
            "json: cannot unmarshal string into Go struct field Request.entry of type server.Entry",
        ),
        (
            '{"metadata":{"a":1}}',
            "json: cannot unmarshal number into Go struct field Request.metadata.a of type string",
        ),
        ('{"retention":null}', 'can not unmarshal "null"'),
        ('{"retention":"Limits"}', 'can not unmarshal "\\"Limits\\""'),
        ('{"retention":5}', 'can not unmarshal "5"'),
        ('{"retention":{}}', 'can not unmarshal "{}"'),
        ('{"compression":"x"}', "unknown compression algorithm"),
        ('{"at":5}', "json: cannot unmarshal number into Go struct field Request.at of type time.Time"),
    ],
)
def test_refused_in_the_words_of_a_real_server(body: str, complaint: str) -> None:
    with pytest.raises(ApiError) as caught:
        read(body)
    assert (caught.value.err_code, caught.value.description) == (10025, f"invalid JSON: {complaint}")


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(ApiError, match='parsing time "x"'):
        read('{"at":"x"}')


@pytest.mark.parametrize("body", ['{"max_msgs":NaN}', "[" * 100_000, '{"name":"\x01"}', "9" * 10_000])
def test_hostile_bodies_are_refused_and_nothing_else(body: str) -> None:
    with pytest.raises(ApiError) as caught:
        read(body)
    assert caught.value.err_code == 10025


def test_bytes_that_are_no_utf8_are_read_with_a_replacement() -> None:
    assert go_json.decode(b'{"name":"\xff"}', FIELDS, "Request") == {"name": "�"}
