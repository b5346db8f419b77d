// Object stores: objects in chunks, links, listings and watches.

import { Objm } from "@nats-io/obj";
import { all } from "./probe.mjs";

const encoder = new TextEncoder();

function shown(info) {
  if (info === null) return null;
  const { bucket, name, description, size, chunks, deleted, digest, options } = info;
  return { bucket, name, description, size, chunks, deleted, digest, link: options?.link ?? null };
}

export async function objects(probe) {
  const objm = new Objm(probe.js);
  const store = await objm.create("OBJ", { description: "things" });
  const large = encoder.encode("0123456789".repeat(50_000));
  await probe.call("the stream", () => probe.manager.streams.info("OBJ_OBJ"));
  await probe.call("put", async () => shown(await store.putBlob({ name: "small" }, encoder.encode("hello"))));
  await probe.call("put a large one", async () => shown(await store.putBlob({ name: "large" }, large)));
  await probe.call("get", async () => new TextDecoder().decode(await store.getBlob("small")));
  await probe.call("get a large one", async () => (await store.getBlob("large")).length);
  await probe.call("get none", () => store.getBlob("none"));
  await probe.call("info", async () => shown(await store.info("large")));
  await probe.call("info of none", () => store.info("none"));
  await probe.call("link", async () => shown(await store.link("alias", await store.info("small"))));
  await probe.call("get by the link", async () => new TextDecoder().decode(await store.getBlob("alias")));
  await probe.call("list", async () => (await store.list()).map(shown));
  await probe.call("replace", async () => shown(await store.putBlob({ name: "small" }, encoder.encode("other"))));
  await probe.call("delete", () => store.delete("large"));
  await probe.call("get the deleted", () => store.getBlob("large"));
  await probe.call("watch", async () => {
    const seen = [];
    const watch = await store.watch({ includeHistory: true });
    const watched = all(watch).then((found) => seen.push(...found.filter((one) => one !== null).map(shown)));
    await store.putBlob({ name: "watched" }, encoder.encode("now"));
    const deadline = Date.now() + 10_000;
    while (watch.getProcessed() < 4 && Date.now() < deadline) await new Promise((done) => setTimeout(done, 20));
    watch.stop();
    await watched;
    return seen.sort((a, b) => a.name.localeCompare(b.name));
  });
  await probe.call("status", async () => {
    const { bucket, description, size, sealed, streamInfo } = await store.status();
    return { bucket, description, size, sealed, messages: streamInfo.state.messages };
  });
  await probe.call("seal", async () => (await store.seal()).sealed);
  await probe.call("put into the sealed", () => store.putBlob({ name: "late" }, encoder.encode("x")));
  await probe.call("destroy", () => store.destroy());
}
