// What users of node-nats-streaming rely on, tried with the real client: node behaviours.mjs URL CLUSTER.
// Writes one line of JSON for each behaviour: its name, and what went wrong if anything did.

import assert from "node:assert/strict";
import stan from "node-nats-streaming";

const [url, cluster] = process.argv.slice(2);
const WITHIN_MS = 60_000;

function once(emitter, event) {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`no ${event} in time`)), WITHIN_MS);
    emitter.once(event, (value) => {
      clearTimeout(late);
      resolve(value);
    });
  });
}

async function until(condition) {
  const end = Date.now() + WITHIN_MS;
  while (!condition()) {
    assert.ok(Date.now() < end, "did not come to pass in time");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

class Site {
  constructor(name) {
    this.name = name;
  }

  channel(part = "x") {
    return `js.${this.name}.${part}`;
  }

  open(clientId = "me", options = {}) {
    const client = stan.connect(cluster, `js-${this.name}-${clientId}`, { url, connectTimeout: WITHIN_MS, ...options });
    client.on("error", () => {});
    return client;
  }

  async connected(clientId = "me", options = {}) {
    const client = this.open(clientId, options);
    await once(client, "connect");
    return client;
  }

  publish(client, data, part = "x") {
    return new Promise((resolve, reject) => {
      client.publish(this.channel(part), data, (error, guid) => (error ? reject(error) : resolve(guid)));
    });
  }

  async subscribed(client, configure = (options) => options, group, part = "x") {
    const options = configure(client.subscriptionOptions());
    const channel = this.channel(part);
    const subscription = group ? client.subscribe(channel, group, options) : client.subscribe(channel, options);
    subscription.got = [];
    subscription.on("message", (message) => subscription.got.push(message));
    await once(subscription, "ready");
    return subscription;
  }
}

const seqs = (subscription) => subscription.got.map((message) => message.getSequence());
const closed = (client) => {
  const done = once(client, "close");
  client.close();
  return done;
};

const behaviours = {
  async a_publish_returns_its_guid(site) {
    const client = await site.connected();
    const acked = new Promise((resolve, reject) => {
      const guid = client.publish(site.channel(), "x", (error, id) => (error ? reject(error) : resolve([guid, id])));
    });
    const [guid, id] = await acked;
    assert.equal(id, guid);
  },

  async a_subscription_has_an_ack_inbox_and_ends(site) {
    const client = await site.connected();
    const subscription = await site.subscribed(client);
    assert.ok(subscription.ackInbox);
    subscription.unsubscribe();
    await once(subscription, "unsubscribed");
    assert.ok(subscription.isClosed());
    await site.publish(client, "x");
    assert.deepEqual(subscription.got, []);
  },

  async messages_carry_all_their_parts(site) {
    const client = await site.connected();
    const subscription = await site.subscribed(client, (options) => options.setDeliverAllAvailable());
    await site.publish(client, "first");
    await until(() => subscription.got.length === 1);
    const [message] = subscription.got;
    assert.equal(message.getSubject(), site.channel());
    assert.equal(message.getData(), "first");
    assert.equal(message.getSequence(), 1);
    assert.equal(message.isRedelivered(), false);
    assert.ok(Math.abs(message.getTimestamp() - Date.now()) < 3_600_000);
  },

  async an_id_in_use_is_refused(site) {
    await site.connected();
    const second = site.open();
    const [error] = await Promise.all([once(second, "error"), once(second, "close")]);
    assert.match(String(error), /clientID already registered/);
  },

  async a_subscription_begins_where_it_asks(site) {
    const client = await site.connected();
    for (const data of ["first", "second", "third"]) await site.publish(client, data);
    const begun = {
      sequence: await site.subscribed(client, (options) => options.setStartAtSequence(2)),
      last: await site.subscribed(client, (options) => options.setStartWithLastReceived()),
      all: await site.subscribed(client, (options) => options.setDeliverAllAvailable()),
      fresh: await site.subscribed(client),
      age: await site.subscribed(client, (options) => options.setStartAtTimeDelta(3_600_000)),
      time: await site.subscribed(client, (options) => options.setStartTime(new Date(Date.now() - 3_600_000))),
    };
    await site.publish(client, "fourth");
    const expected = {
      sequence: [2, 3, 4],
      last: [3, 4],
      all: [1, 2, 3, 4],
      fresh: [4],
      age: [1, 2, 3, 4],
      time: [1, 2, 3, 4],
    };
    for (const [name, wanted] of Object.entries(expected)) {
      await until(() => begun[name].got.length >= wanted.length);
      assert.deepEqual(seqs(begun[name]), wanted, name);
    }
  },

  async a_group_shares_messages(site) {
    const clients = [await site.connected("one"), await site.connected("two")];
    const members = [];
    for (const client of clients) members.push(await site.subscribed(client, undefined, "group"));
    for (let n = 0; n < 20; n++) await site.publish(clients[0], `${n}`);
    await until(() => members[0].got.length + members[1].got.length >= 20);
    const all = members.flatMap(seqs).sort((a, b) => a - b);
    assert.deepEqual(all, Array.from({ length: 20 }, (_, n) => n + 1));
    assert.ok(members.every((member) => member.got.length > 0));
  },

  async a_durable_resumes_after_its_client_came_back(site) {
    let client = await site.connected();
    const durable = (options) => options.setDeliverAllAvailable().setDurableName("mine");
    for (const data of ["1", "2"]) await site.publish(client, data);
    const first = await site.subscribed(client, durable);
    await until(() => first.got.length === 2);
    await closed(client);
    client = await site.connected();
    for (const data of ["3", "4"]) await site.publish(client, data);
    const second = await site.subscribed(client, durable);
    await until(() => second.got.length >= 2);
    assert.deepEqual(seqs(second), [3, 4]);
  },

  async a_durable_resumes_after_it_was_closed(site) {
    const client = await site.connected();
    const durable = (options) => options.setDeliverAllAvailable().setDurableName("mine");
    const first = await site.subscribed(client, durable);
    for (const data of ["1", "2"]) await site.publish(client, data);
    await until(() => first.got.length === 2);
    first.close();
    await once(first, "closed");
    await site.publish(client, "3");
    const second = await site.subscribed(client, durable);
    await until(() => second.got.length >= 1);
    assert.deepEqual(seqs(second), [3]);
    assert.equal(first.got.length, 2);
  },

  async what_a_member_left_comes_to_another_with_its_count(site) {
    const one = await site.connected("one");
    const two = await site.connected("two");
    const manual = (options) => options.setManualAckMode(true).setDurableName("d").setDeliverAllAvailable();
    const first = await site.subscribed(one, manual, "group");
    await site.publish(one, "x");
    await until(() => first.got.length === 1);
    const second = await site.subscribed(two, manual, "group");
    first.close();
    await until(() => second.got.length === 1);
    assert.ok(second.got[0].isRedelivered());
    assert.ok(second.got[0].getRedeliveryCount() > 0);
    second.got[0].ack();
  },

  async what_is_not_acknowledged_comes_again(site) {
    const client = await site.connected();
    const subscription = await site.subscribed(client, (options) =>
      options.setManualAckMode(true).setAckWait(1000).setMaxInFlight(1),
    );
    for (const data of ["1", "2"]) await site.publish(client, data);
    await until(() => subscription.got.length >= 3);
    assert.deepEqual(seqs(subscription).slice(0, 3), [1, 1, 1]);
    assert.equal(subscription.got[2].getRedeliveryCount(), 2);
  },

  async close_ends_the_client_and_may_be_said_twice(site) {
    const client = await site.connected();
    await closed(client);
    assert.ok(client.isClosed());
    client.close();
    await site.connected();
  },

  async a_replaced_client_learns_of_it(site) {
    const first = await site.connected("me", { stanPingInterval: 1000, stanMaxPingOut: 100 });
    const lost = once(first, "connection_lost");
    first.nc.unsubscribe(first.hbSubscription);
    await new Promise((resolve) => first.nc.flush(resolve));
    await site.connected("me");
    assert.match(String(await lost), /client has been replaced or is no longer registered/);
  },

  async an_unknown_cluster_does_not_answer(site) {
    const client = stan.connect("nobody", "me", { url, connectTimeout: 200 });
    assert.match(String(await once(client, "error")), /timeout/);
  },
};

async function tried(name, behaviour) {
  const site = new Site(name);
  let problem = null;
  try {
    await behaviour(site);
  } catch (error) {
    problem = String(error && error.stack ? error.stack : error);
  }
  console.log(JSON.stringify({ behaviour: name, problem }));
}

await Promise.all(Object.entries(behaviours).map(([name, behaviour]) => tried(name, behaviour)));
// Connections stay open to the end; what was written must be out before they are cut.
process.stdout.write("", () => process.exit(0));
