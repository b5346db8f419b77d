// A client of one server that records what every call of the official library returned or threw.

import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";

const decoder = new TextDecoder();

function headersOf(headers) {
  return Object.fromEntries([...headers].map(([key, values]) => [key, values.join(",")]));
}

// A message, stored or direct, as plain values.
export function message(msg) {
  if (msg === null) return null;
  return {
    subject: msg.subject,
    seq: msg.seq,
    time: msg.timestamp,
    headers: msg.header ? headersOf(msg.header) : {},
    data: decoder.decode(msg.data),
    pending: msg.pending,
  };
}

function refusal(error) {
  const shown = { throws: error.constructor.name, message: error.message };
  if (typeof error.code === "number") shown.code = error.code;
  return shown;
}

export class Probe {
  constructor(nc, manager) {
    this.nc = nc;
    this.manager = manager;
    this.js = jetstream(nc, { timeout: 30_000 });
    this.answers = [];
  }

  static async connected(url) {
    const nc = await connect({ servers: url, reconnect: false });
    return new Probe(nc, await jetstreamManager(nc, { timeout: 30_000 }));
  }

  // Await a call and record its result, or what it threw; each label is used once.
  async call(label, call) {
    let value;
    try {
      value = (await call()) ?? null;
    } catch (error) {
      this.answers.push({ label, value: refusal(error) });
      return undefined;
    }
    this.answers.push({ label, value: JSON.parse(JSON.stringify(value)) });
    return value;
  }
}

export async function all(iterator) {
  const items = [];
  for await (const item of iterator) items.push(item);
  return items;
}
