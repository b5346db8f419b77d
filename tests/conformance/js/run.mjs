// Runs every script against the server named on the command line; prints what was recorded as one JSON object.

import { consumers } from "./consumers.mjs";
import { direct } from "./direct.mjs";
import { keyvalue } from "./keyvalue.mjs";
import { objects } from "./objects.mjs";
import { Probe } from "./probe.mjs";
import { publishing } from "./publishing.mjs";
import { streams } from "./streams.mjs";

const recorded = {};
for (const [name, script] of Object.entries({ streams, publishing, direct, keyvalue, consumers, objects })) {
  const probe = await Probe.connected(process.argv[2]);
  try {
    await script(probe);
  } catch (error) {
    probe.answers.push({ label: "the script broke off", value: `${error.name}: ${error.message}` });
  }
  recorded[name] = await probe.finished();
}
console.log(JSON.stringify(recorded));
