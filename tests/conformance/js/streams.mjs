// Streams through the manager: add, update, list, purge, delete, and the messages in them.

import { all, message } from "./probe.mjs";

export async function streams(probe) {
  const { streams } = probe.manager;
  await probe.call("account", () => probe.manager.getAccountInfo());
  await probe.call("add", () => streams.add({ name: "JS", subjects: ["js.>"], max_msgs: 100 }));
  await probe.call("add again", () => streams.add({ name: "JS", subjects: ["js.>"], max_msgs: 100 }));
  await probe.call("add otherwise", () => streams.add({ name: "JS", subjects: ["js.>"], max_msgs: 7 }));
  await probe.call("add overlapping", () => streams.add({ name: "TWO", subjects: ["js.a"] }));
  for (const subject of ["js.a", "js.b", "js.a", "js.c"]) await probe.js.publish(subject, subject);
  await probe.call("info", () => streams.info("JS"));
  await probe.call("info with subjects", () => streams.info("JS", { subjects_filter: ">" }));
  await probe.call("info of none", () => streams.info("NONE"));
  await probe.call("update", () => streams.update("JS", { description: "new", max_age: 3_600_000_000_000 }));
  await probe.call("update storage", () => streams.update("JS", { storage: "memory" }));
  await probe.call("find", () => streams.find("js.anything"));
  await probe.call("find nothing", () => streams.find("nothing"));
  await probe.call("names", () => all(streams.names()));
  await probe.call("names by subject", () => all(streams.names("js.a")));
  await probe.call("list", () => all(streams.list()));
  await probe.call("get by sequence", async () => message(await streams.getMessage("JS", { seq: 1 })));
  await probe.call("get last", async () => message(await streams.getMessage("JS", { last_by_subj: "js.a" })));
  await probe.call("get next", async () => message(await streams.getMessage("JS", { next_by_subj: "js.*", seq: 2 })));
  await probe.call("get nothing", async () => message(await streams.getMessage("JS", { seq: 99 })));
  await probe.call("delete a message", () => streams.deleteMessage("JS", 2));
  await probe.call("delete it without erasing", () => streams.deleteMessage("JS", 3, false));
  await probe.call("delete it again", () => streams.deleteMessage("JS", 2));
  await probe.call("info with deleted", () => streams.info("JS", { deleted_details: true }));
  await probe.call("purge by subject", () => streams.purge("JS", { filter: "js.c" }));
  await probe.call("purge keeping", () => streams.purge("JS", { keep: 1 }));
  await probe.call("purge up to", () => streams.purge("JS", { seq: 10 }));
  await probe.call("purge", () => streams.purge("JS"));
  await probe.call("info when empty", () => streams.info("JS"));
  await probe.call("delete", () => streams.delete("JS"));
  await probe.call("delete again", () => streams.delete("JS"));
}
