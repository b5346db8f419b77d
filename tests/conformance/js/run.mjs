// Runs one script against a server, both named on the command line; prints what was recorded as JSON.

import { consumers } from "./consumers.mjs";
import { direct } from "./direct.mjs";
import { keyvalue } from "./keyvalue.mjs";
import { objects } from "./objects.mjs";
import { Probe } from "./probe.mjs";
import { publishing } from "./publishing.mjs";
import { streams } from "./streams.mjs";

const scripts = { consumers, direct, keyvalue, objects, publishing, streams };
const [url, name] = process.argv.slice(2);
const probe = await Probe.connected(url);
try {
  await scripts[name](probe);
} catch (error) {
  probe.answers.push({ label: "the script broke off", value: `${error.name}: ${error.message}` });
}
await probe.nc.close();
console.log(JSON.stringify(probe.answers));
