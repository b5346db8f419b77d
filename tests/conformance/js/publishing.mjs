// Publishing: acknowledgements, duplicates, expectations, TTLs, batches.

import { headers } from "@nats-io/transport-node";
import { message } from "./probe.mjs";

export async function publishing(probe) {
  const { js, manager } = probe;
  await manager.streams.add({
    name: "PUB", subjects: ["pub.>"], allow_rollup_hdrs: true, allow_msg_ttl: true, allow_atomic: true,
  });
  await probe.call("publish", () => js.publish("pub.a", "one"));
  await probe.call("publish nothing", () => js.publish("pub.a"));
  await probe.call("publish with an id", () => js.publish("pub.a", "two", { msgID: "x" }));
  await probe.call("publish the id again", () => js.publish("pub.a", "two", { msgID: "x" }));
  await probe.call("expect the stream", () => js.publish("pub.a", "", { expect: { streamName: "PUB" } }));
  await probe.call("expect another stream", () => js.publish("pub.a", "", { expect: { streamName: "X" } }));
  await probe.call("expect a sequence", () => js.publish("pub.a", "", { expect: { lastSequence: 4 } }));
  await probe.call("expect another", () => js.publish("pub.a", "", { expect: { lastSequence: 4 } }));
  await probe.call("expect an id", () => js.publish("pub.a", "", { expect: { lastMsgID: "x" } }));
  await probe.call("expect none yet", () => js.publish("pub.b", "", { expect: { lastSubjectSequence: 0 } }));
  await probe.call("expect none still", () => js.publish("pub.b", "", { expect: { lastSubjectSequence: 0 } }));
  await probe.call("expect of a wildcard", () =>
    js.publish("pub.c", "", { expect: { lastSubjectSequence: 1, lastSubjectSequenceSubject: "pub.*" } }));
  await probe.call("a ttl", () => js.publish("pub.t", "", { ttl: "1h" }));
  await probe.call("no ttl", () => js.publish("pub.t", "", { ttl: "soon" }));
  const rollup = headers();
  rollup.set("Nats-Rollup", "sub");
  await probe.call("a rollup", () => js.publish("pub.a", "sum", { headers: rollup }));
  await probe.call("to nobody", () => js.publish("nobody", "", { retries: 0 }));
  await probe.call("a batch", async () => {
    const batch = await js.startBatch("pub.batch", "one");
    batch.add("pub.batch", "two");
    return await batch.commit("pub.batch", "three");
  });
  await probe.call("after all", () => manager.streams.info("PUB", { subjects_filter: ">" }));
  await probe.call("the last of the batch", async () =>
    message(await manager.streams.getMessage("PUB", { last_by_subj: "pub.batch" })));
}
