// Consumers: declared through the manager, and used by fetch, next, consume, push and in order.

import { AckPolicy, DeliverPolicy } from "@nats-io/jetstream";
import { all } from "./probe.mjs";

const decoder = new TextDecoder();

// What a client sees of a delivered message.
function delivered(msg) {
  const { streamSequence, deliverySequence, deliveryCount, pending, redelivered, consumer, stream } = msg.info;
  const place = { streamSequence, deliverySequence, deliveryCount, pending, redelivered, consumer, stream };
  return { subject: msg.subject, data: decoder.decode(msg.data), ...place };
}

// The part of an info that a step changes. How many requests still wait is not of it: a client that stops taking
// leaves one behind, until the server notices.
async function standing(consumer) {
  const { delivered, ack_floor, num_ack_pending, num_redelivered, num_pending } = await consumer.info();
  return { delivered, ack_floor, num_ack_pending, num_redelivered, num_pending };
}

async function taken(messages, count, ack = (msg) => msg.ack()) {
  const seen = [];
  for await (const msg of messages) {
    seen.push(delivered(msg));
    await ack(msg);
    if (seen.length === count) break;
  }
  return seen;
}

const nameless = (seen) => seen.map((one) => ({ ...one, consumer: "<name>" }));

export async function consumers(probe) {
  const { streams, consumers } = probe.manager;
  await streams.add({ name: "C", subjects: ["c.>"] });
  for (let n = 1; n <= 10; n++) await probe.js.publish(n % 2 ? "c.odd" : "c.even", `${n}`);

  await probe.call("add", () => consumers.add("C", { durable_name: "d", ack_policy: AckPolicy.Explicit }));
  await probe.call("add again", () => consumers.add("C", { durable_name: "d", ack_policy: AckPolicy.Explicit }));
  await probe.call("add otherwise", () => consumers.add("C", { durable_name: "d", ack_policy: AckPolicy.None }));
  await probe.call("update", () => consumers.update("C", "d", { description: "new", max_ack_pending: 50 }));
  await probe.call("add another", () =>
    consumers.add("C", { durable_name: "odd", ack_policy: AckPolicy.All, filter_subjects: ["c.odd"] }));
  await probe.call("info", () => consumers.info("C", "d"));
  await probe.call("info of none", () => consumers.info("C", "none"));
  await probe.call("list", () => all(consumers.list("C")));
  await probe.call("pause", () => consumers.pause("C", "d", new Date("2999-01-01T00:00:00Z")));
  await probe.call("resume", () => consumers.resume("C", "d"));
  await probe.call("delete", () => consumers.delete("C", "odd"));
  await probe.call("delete again", () => consumers.delete("C", "odd"));

  const d = await probe.js.consumers.get("C", "d");
  await probe.call("fetch", async () => taken(await d.fetch({ max_messages: 3, expires: 5000 }), 3));
  await probe.call("next", async () => {
    const msg = await d.next({ expires: 5000 });
    return [delivered(msg), await msg.ackAck()];
  });
  await probe.call("standing", () => standing(d));
  await probe.call("consume", async () => taken(await d.consume({ max_messages: 5 }), 6, (msg) => msg.ackAck()));
  await probe.call("next of nothing", () => d.next({ expires: 1000 }));
  await probe.call("naked", async () => {
    await probe.js.publish("c.odd", "11");
    const first = await d.next({ expires: 5000 });
    first.nak();
    const again = await d.next({ expires: 5000 });
    again.term("enough");
    return [delivered(first), delivered(again)];
  });
  await probe.call("fetch of bytes", async () => {
    await probe.js.publish("c.even", "x".repeat(200));
    return taken(await d.fetch({ max_bytes: 1024, expires: 1000 }), 1, (msg) => msg.ackAck());
  });
  await probe.call("standing in the end", () => standing(d));

  await probe.call("in order", async () => {
    const ordered = await probe.js.consumers.get("C");
    return nameless(await taken(await ordered.consume(), 12, () => {}));
  });
  await probe.call("in order from a sequence", async () => {
    const ordered = await probe.js.consumers.get("C", {
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: 9,
      filter_subjects: ["c.odd"],
    });
    return nameless(await taken(await ordered.fetch({ max_messages: 2, expires: 5000 }), 2, () => {}));
  });
  await probe.call("pushed", async () => {
    await consumers.add("C", {
      durable_name: "p",
      deliver_subject: "push.here",
      ack_policy: AckPolicy.Explicit,
      idle_heartbeat: 1_000_000_000,
      flow_control: true,
      filter_subject: "c.odd",
    });
    const pushed = await probe.js.consumers.getPushConsumer("C", "p");
    return taken(await pushed.consume(), 6, (msg) => msg.ackAck());
  });
  await probe.call("pushed in order", async () => {
    const pushed = await probe.js.consumers.getPushConsumer("C", { filter_subjects: ["c.even"] });
    return nameless(await taken(await pushed.consume(), 6, () => {}));
  });
}
