// Direct get: one message, a batch, the last of many subjects.

import { all, message } from "./probe.mjs";

export async function direct(probe) {
  const { direct, streams } = probe.manager;
  await streams.add({ name: "JS_D", subjects: ["jsd.>"], allow_direct: true });
  for (const [index, subject] of ["jsd.a", "jsd.b", "jsd.a", "jsd.c", "jsd.b"].entries()) {
    await probe.js.publish(subject, `${index + 1}`);
  }
  const one = async (query) => message(await direct.getMessage("JS_D", query));
  const many = async (call) => (await all(await call())).map(message);
  await probe.call("by sequence", () => one({ seq: 2 }));
  await probe.call("last by subject", () => one({ last_by_subj: "jsd.a" }));
  await probe.call("next by subject", () => one({ next_by_subj: "jsd.b", seq: 3 }));
  await probe.call("nothing", () => one({ seq: 99 }));
  await probe.call("no such subject", () => one({ last_by_subj: "jsd.z" }));
  await probe.call("a batch", () => many(() => direct.getBatch("JS_D", { seq: 2, batch: 3 })));
  await probe.call("a batch of a subject", () => many(() => direct.getBatch("JS_D", { seq: 1, next_by_subj: "jsd.a", batch: 9 })));
  await probe.call("a batch of nothing", () => many(() => direct.getBatch("JS_D", { seq: 9, batch: 3 })));
  await probe.call("last of many", () => many(() => direct.getLastMessagesFor("JS_D", { multi_last: ["jsd.>"] })));
  await probe.call("last of some", () => many(() => direct.getLastMessagesFor("JS_D", { multi_last: ["jsd.a", "jsd.c"], up_to_seq: 3 })));
  await probe.call("last of none", () => many(() => direct.getLastMessagesFor("JS_D", { multi_last: ["jsd.z"] })));
}
