"""Configs that are refused, or adjusted and accepted: a spread over every rule's kind."""

from typing import Any

from conformance.probe import Probe
from conformance.scenario import scenario

SECOND = 1_000_000_000

LIMITS: dict[str, dict[str, Any]] = {
    "negative age": {"max_age": -1},
    "age below 100 ms": {"max_age": 99_999_999},
    "age of 100 ms": {"max_age": 100_000_000},
    "negative window": {"duplicate_window": -1},
    "window below 100 ms": {"duplicate_window": 1},
    "window above age": {"max_age": SECOND, "duplicate_window": 2 * SECOND},
    "replicas above 5": {"num_replicas": 6},
    "negative replicas": {"num_replicas": -1},
    "replicas of 3": {"num_replicas": 3},
    "per subject without discard new": {"discard_new_per_subject": True, "max_msgs_per_subject": 1},
    "per subject without a limit": {"discard_new_per_subject": True, "discard": "new"},
    "rollup without purge": {"deny_purge": True, "allow_rollup_hdrs": True},
    "long description": {"description": "d" * 4097},
    "description at the limit": {"description": "d" * 4096},
    "much metadata": {"metadata": {"k": "v" * (128 * 1024)}},
    "preferred placement": {"placement": {"preferred": "x"}},
    "placement by tag": {"placement": {"tags": ["ssd"]}},
    "placement in a cluster": {"placement": {"cluster": "C1"}},
    "mirror direct without mirror": {"mirror_direct": True},
    "work queue": {"retention": "workqueue"},
    "interest": {"retention": "interest"},
    "template owner": {"template_owner": "x"},
}

FEATURES: dict[str, dict[str, Any]] = {
    "marker below a second": {"subject_delete_marker_ttl": SECOND // 2},
    "negative marker": {"subject_delete_marker_ttl": -1},
    "marker alone": {"subject_delete_marker_ttl": SECOND},
    "marker without purge": {"subject_delete_marker_ttl": SECOND, "deny_purge": True},
    "counter with discard new": {"allow_msg_counter": True, "discard": "new", "max_msgs": 1},
    "counter with ttl": {"allow_msg_counter": True, "allow_msg_ttl": True},
    "counter with a work queue": {"allow_msg_counter": True, "retention": "workqueue"},
    "counter": {"allow_msg_counter": True},
    "schedules with discard new": {"allow_msg_schedules": True, "discard": "new", "max_msgs": 1},
    "schedules": {"allow_msg_schedules": True},
    "atomic": {"allow_atomic": True},
    "batched": {"allow_batched": True},
    "async": {"persist_mode": "async"},
    "async in memory": {"persist_mode": "async", "storage": "memory"},
    "async and atomic": {"persist_mode": "async", "allow_atomic": True},
    "persist mode default": {"persist_mode": "default"},
    "unknown persist mode": {"persist_mode": "maybe"},
    "ttl": {"allow_msg_ttl": True},
    "compression in memory": {"compression": "s2", "storage": "memory"},
}

SUBJECTS: dict[str, list[str]] = {
    "twice the same": ["a", "a"],
    "overlapping": ["a.*", "a.b"],
    "overlapping wildcards": ["a.*.c", "a.b.*"],
    "empty token": ["a..b"],
    "leading dot": [".a"],
    "trailing dot": ["a."],
    "empty": [""],
    "space": ["a b"],
    "inner full wildcard": ["a.>.b"],
    "partial wildcard": ["a.b*"],
    "everything": [">"],
    "the api": ["$JS.API.>"],
    "all of js": ["$JS.>"],
    "js events": ["$JS.EVENT.>"],
    "js advisories": ["$JS.EVENT.ADVISORY.>"],
    "all of sys": ["$SYS.>"],
    "sys accounts": ["$SYS.ACCOUNT.>"],
    "nrg": ["$NRG.x"],
    "jsc": ["$JSC.x"],
    "kv": ["$KV.b.>"],
    "any first token": ["*.x"],
    "umlaut": ["gr\u00fc\u00df.>"],
}

REWRITES: dict[str, dict[str, Any]] = {
    "republish cycle": {"republish": {"src": ">", "dest": "s.copy"}},
    "republish cycle by wildcard": {"republish": {"src": "s.>", "dest": "s.b.>"}},
    "republish everything": {"republish": {"dest": "copy.>"}},
    "republish with bad index": {"republish": {"src": "s.*", "dest": "copy.{{wildcard(2)}}"}},
    "republish without dest": {"republish": {"src": "s.*", "dest": ""}},
    "republish other source": {"republish": {"src": "t.>", "dest": "copy.>"}},
    "republish to one": {"republish": {"src": "s.>", "dest": "copy"}},
    "republish bad dest": {"republish": {"src": "s.>", "dest": "copy..x"}},
    "transform": {"subject_transform": {"src": "s.*", "dest": "t.$1"}},
    "transform bad source": {"subject_transform": {"src": "s..x", "dest": "t"}},
    "transform bad dest": {"subject_transform": {"src": "s.*", "dest": "t.{{wildcard(2)}}"}},
    "transform unknown function": {"subject_transform": {"src": "s.*", "dest": "t.{{shout(1)}}"}},
    "transform missing argument": {"subject_transform": {"src": "s.*", "dest": "t.{{split(1)}}"}},
    "transform too many arguments": {"subject_transform": {"src": "s.*", "dest": "t.{{wildcard(1,2)}}"}},
    "transform no number": {"subject_transform": {"src": "s.*", "dest": "t.{{wildcard(x)}}"}},
    "transform wildcard dest": {"subject_transform": {"src": "s.*", "dest": "t.*"}},
    "transform full wildcard in one": {"subject_transform": {"src": "s.>", "dest": "t"}},
    "transform loses a wildcard": {"subject_transform": {"src": "s.*.*", "dest": "t.$1"}},
    "transform empty source": {"subject_transform": {"src": "", "dest": "t.>"}},
    "transform empty dest": {"subject_transform": {"src": "s.>", "dest": ""}},
    "transform unclosed": {"subject_transform": {"src": "s.*", "dest": "t.{{wildcard(1)"}},
}

UPSTREAMS: dict[str, dict[str, Any]] = {
    "mirror with subjects": {"mirror": {"name": "O"}, "subjects": ["s"]},
    "mirror with sources": {"mirror": {"name": "O"}, "sources": [{"name": "P"}]},
    "mirror with first_seq": {"mirror": {"name": "O"}, "first_seq": 5},
    "mirror of a bad name": {"mirror": {"name": "a.b"}},
    "mirror of nothing": {"mirror": {"name": ""}},
    "mirror of itself": {"mirror": {"name": "S"}},
    "mirror with counter": {"mirror": {"name": "O"}, "allow_msg_counter": True},
    "mirror with atomic": {"mirror": {"name": "O"}, "allow_atomic": True},
    "mirror with schedules": {"mirror": {"name": "O"}, "allow_msg_schedules": True},
    "mirror with markers": {"mirror": {"name": "O"}, "subject_delete_marker_ttl": SECOND},
    "mirror filter and transforms": {
        "mirror": {"name": "O", "filter_subject": "a", "subject_transforms": [{"src": "b", "dest": "c"}]}
    },
    "mirror overlapping transforms": {
        "mirror": {
            "name": "O",
            "subject_transforms": [{"src": "b.*", "dest": ""}, {"src": "b.c", "dest": ""}],
        }
    },
    "mirror with a bad filter": {"mirror": {"name": "O", "filter_subject": "a..b"}},
    "sources null": {"sources": [None]},
    "source of a bad name": {"sources": [{"name": "a b"}]},
    "source twice": {"sources": [{"name": "O"}, {"name": "O"}]},
    "source of itself": {"sources": [{"name": "S"}]},
    "source with schedules": {"sources": [{"name": "O"}], "allow_msg_schedules": True},
    "source with a domain key": {"sources": [{"name": "O", "domain": "hub"}]},
    "source own api": {"sources": [{"name": "O", "external": {"api": "$JS.API", "deliver": ""}}]},
    "source wildcard api": {"sources": [{"name": "O", "external": {"api": "$JS.*.API", "deliver": ""}}]},
    "source wildcard deliver": {
        "sources": [{"name": "O", "external": {"api": "$JS.h.API", "deliver": "x.*"}}]
    },
    "source with a bad transform": {
        "sources": [{"name": "O", "subject_transforms": [{"src": "a.*", "dest": "$2"}]}]
    },
}


async def try_each(probe: Probe, variants: dict[str, dict[str, Any]], **common: Any) -> None:
    """Create the stream S once per variant, under its label, and delete it again."""
    for label, variant in variants.items():
        config = {"name": "S"} | common | variant
        answer = await probe.quietly("STREAM.CREATE.S", config)
        # Only what is declared: a stream may have stored the news of its own creation already,
        # and an upstream reports its progress at times of its own.
        shown = {key: answer.get(key) for key in ("type", "error", "config", "did_create")}
        probe.record(label, f"$JS.API.STREAM.CREATE.S {config}"[:500], shown)
        if "error" not in answer:
            await probe.quietly("STREAM.DELETE.S")


@scenario
async def limits_are_checked(probe: Probe) -> None:
    await try_each(probe, LIMITS)


@scenario
async def features_are_checked(probe: Probe) -> None:
    await try_each(probe, FEATURES)


@scenario
async def subjects_are_checked(probe: Probe) -> None:
    await try_each(probe, {label: {"subjects": subjects} for label, subjects in SUBJECTS.items()})


@scenario
async def some_subjects_need_no_ack(probe: Probe) -> None:
    chosen = ("everything", "the api", "all of js", "all of sys")
    await try_each(probe, {label: {"subjects": SUBJECTS[label]} for label in chosen}, no_ack=True)


@scenario
async def rewrites_are_checked(probe: Probe) -> None:
    await try_each(probe, REWRITES, subjects=["s.>"])


@scenario
async def upstreams_are_checked(probe: Probe) -> None:
    await try_each(probe, UPSTREAMS)


@scenario
async def pedantic_requests_are_not_adjusted(probe: Probe) -> None:
    variants: dict[str, dict[str, Any]] = {
        "plain": {},
        "marker": {"subject_delete_marker_ttl": SECOND},
        "window": {"max_age": SECOND, "duplicate_window": 2 * SECOND},
        "zero limits": {"max_msgs": 0},
        "written out": {"max_msgs": -1, "max_bytes": -1, "max_age": 0, "duplicate_window": 120 * SECOND},
        "no number": {"pedantic": "yes"},
    }
    await try_each(probe, variants, pedantic=True, subjects=["s"])


@scenario
async def the_required_level_follows_from_the_config(probe: Probe) -> None:
    variants: dict[str, dict[str, Any]] = {
        "none": {},
        "ttl": {"allow_msg_ttl": True},
        "counter": {"allow_msg_counter": True},
        "atomic": {"allow_atomic": True},
        "schedules": {"allow_msg_schedules": True},
        "async": {"persist_mode": "async"},
        "batched": {"allow_batched": True},
        "own metadata": {"metadata": {"_nats.ver": "mine", "_nats.req.level": "9", "own": "kept"}},
    }
    await try_each(probe, variants, subjects=["s"])
