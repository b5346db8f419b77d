"""Key-value buckets through the official client; a bucket is a stream."""

from nats.js.api import KeyValueConfig, StorageType
from nats.js.kv import KeyValue

from conformance.probe import Probe
from conformance.scenario import scenario


@scenario
async def a_bucket_holds_values(probe: Probe) -> None:
    kv = await probe.js.create_key_value(KeyValueConfig(bucket="B", history=3, description="a bucket"))
    await probe.api("STREAM.INFO.KV_B")
    await probe.call("get nothing", kv.get("a"))
    await probe.call("put", kv.put("a", b"one"))
    await probe.call("put again", kv.put("a", b"two"))
    await probe.call("put another", kv.put("b.c.d", b"three"))
    await probe.call("get", kv.get("a"))
    await probe.call("get a revision", kv.get("a", revision=1))
    await probe.call("get another's revision", kv.get("a", revision=3))
    await probe.call("get no revision", kv.get("a", revision=99))
    await probe.call("get another", kv.get("b.c.d"))
    await probe.call("a bad key", kv.put("a b", b""))
    await probe.call("status", kv.status())
    await probe.state("KV_B", subjects_filter=">")


@scenario
async def a_value_is_updated_from_its_revision(probe: Probe) -> None:
    kv = await probe.js.create_key_value(KeyValueConfig(bucket="B"))
    await probe.call("create", kv.create("a", b"one"))
    await probe.call("create again", kv.create("a", b"two"))
    await probe.call("update", kv.update("a", b"three", last=1))
    await probe.call("update from the wrong revision", kv.update("a", b"four", last=1))
    await probe.call("update what is not there", kv.update("z", b"five", last=7))
    await probe.call("delete", kv.delete("a"))
    await probe.call("get the deleted", kv.get("a"))
    await probe.call("create the deleted", kv.create("a", b"again"))
    await probe.call("delete from the wrong revision", kv.delete("a", last=1))
    await probe.call("purge", kv.purge("a"))
    await probe.call("get the purged", kv.get("a"))
    await probe.contents("KV_B")


@scenario
async def a_bucket_keeps_so_much_history(probe: Probe) -> None:
    config = KeyValueConfig(bucket="H", history=2, max_value_size=10, storage=StorageType.MEMORY)
    kv: KeyValue = await probe.js.create_key_value(config)
    for value in (b"1", b"2", b"3"):
        await probe.call("put", kv.put("k", value))
    await probe.call("put too much", kv.put("k", b"x" * 11))
    await probe.call("purge", kv.purge("k"))
    await probe.contents("KV_H")
    await probe.call("bind", probe.js.key_value("H"))
    await probe.call("bind to none", probe.js.key_value("NONE"))
    await probe.call("delete the bucket", probe.js.delete_key_value("H"))
    await probe.call("delete it again", probe.js.delete_key_value("H"))


@scenario
async def a_key_may_expire(probe: Probe) -> None:
    config = KeyValueConfig(bucket="T", limit_marker_ttl=2)
    kv = await probe.js.create_key_value(config)
    await probe.api("STREAM.INFO.KV_T")
    await probe.call("create", kv.create("a", b"one", msg_ttl=2))
    await probe.settle("KV_T", lambda state: state["last_seq"] == 2)
    await probe.contents("KV_T")
    await probe.call("get the expired", kv.get("a"))
