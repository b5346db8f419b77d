// Key-value buckets: values, revisions, deletes, purges.

import { Kvm } from "@nats-io/kv";
import { all } from "./probe.mjs";

function entry(found) {
  if (found === null) return null;
  const { bucket, key, revision, operation, length, delta } = found;
  return { bucket, key, revision, operation, length, delta: delta ?? null, value: found.string() };
}

// What a watch shows: first so many entries that are there, then each of two values once it is put. The next
// value is put when the one before was seen, so that no entry's delta depends on how fast the client is.
async function watched(kv, options, present, keys) {
  const watch = await kv.watch(options);
  const found = watch[Symbol.asyncIterator]();
  const seen = [];
  const see = async () => seen.push(entry((await found.next()).value));
  for (let n = 0; n < present; n++) await see();
  for (const key of ["c", "d.e"]) {
    await kv.put(key, "seen");
    if (keys.includes(key)) await see();
  }
  watch.stop();
  return seen;
}

export async function keyvalue(probe) {
  const kvm = new Kvm(probe.js);
  const kv = await kvm.create("KV", { history: 3, description: "a bucket" });
  const get = (key, options) => async () => entry(await kv.get(key, options));
  await probe.call("the stream", () => probe.manager.streams.info("KV_KV"));
  await probe.call("get nothing", get("a"));
  await probe.call("put", () => kv.put("a", "one"));
  await probe.call("get", get("a"));
  await probe.call("put again", () => kv.put("a", "two"));
  await probe.call("get a revision", get("a", { revision: 1 }));
  await probe.call("get no revision", get("a", { revision: 9 }));
  await probe.call("create", () => kv.create("b", "one"));
  await probe.call("create again", () => kv.create("b", "two"));
  await probe.call("update", () => kv.update("b", "three", 3));
  await probe.call("update from the wrong revision", () => kv.update("b", "four", 3));
  await probe.call("put from a revision", () => kv.put("b", "five", { previousSeq: 4 }));
  await probe.call("delete", () => kv.delete("a"));
  await probe.call("get the deleted", get("a"));
  await probe.call("create the deleted", () => kv.create("a", "again"));
  await probe.call("delete from the wrong revision", () => kv.delete("a", { previousSeq: 1 }));
  await probe.call("purge", () => kv.purge("a"));
  await probe.call("get the purged", get("a"));
  await probe.call("open", async () => entry(await (await kvm.open("KV")).get("b")));
  await probe.call("open none", async () => typeof (await kvm.open("NONE")));
  await probe.call("keys", async () => (await all(await kv.keys())).sort());
  await probe.call("history", async () => (await all(await kv.history())).map(entry));
  await probe.call("history of one", async () => (await all(await kv.history({ key: "b" }))).map(entry));
  await probe.call("watch", () => watched(kv, {}, 2, ["c", "d.e"]));
  await probe.call("watch what changes", () => watched(kv, { include: "updates" }, 0, ["c", "d.e"]));
  await probe.call("watch one key", () => watched(kv, { key: "c", include: "history" }, 2, ["c"]));
  await probe.call("status", async () => {
    const { bucket, values, history, ttl, size, description, streamInfo } = await kv.status();
    return { bucket, values, history, ttl, size, description, state: streamInfo.state };
  });
  await probe.call("destroy", () => kv.destroy());
  await probe.call("get from the destroyed", get("a"));
}
