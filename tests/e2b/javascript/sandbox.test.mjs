// Sandboxes, code and contexts, with E2B's client for JavaScript.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { NotFoundError, Sandbox, SandboxNotFoundError, Secret, TimeoutError } from "@e2b/code-interpreter";

let sandbox;

before(async () => {
  sandbox = await Sandbox.create({ metadata: { of: "javascript", at: String(Date.now()) }, envs: { OURS: "all" } });
});

after(() => sandbox.kill());

test("it says what it is, and is listed", async () => {
  const info = await sandbox.getInfo();
  assert.equal(info.sandboxId, sandbox.sandboxId);
  assert.equal(info.state, "running");
  assert.ok(await sandbox.isRunning());
  const listed = await Sandbox.list({ query: { metadata: info.metadata } }).nextItems();
  assert.deepEqual(
    listed.map((one) => one.sandboxId),
    [sandbox.sandboxId],
  );
  await sandbox.setTimeout(600_000);
  assert.ok((await sandbox.getInfo()).endAt - info.endAt > 200_000);
  const [metrics] = await sandbox.getMetrics();
  assert.equal(metrics.cpuCount, 2);
  // The client rounds these times to seconds, up or down.
  const [same] = await sandbox.getMetrics({ start: metrics.timestamp, end: metrics.timestamp });
  assert.deepEqual(same, metrics);
  const since = await Sandbox.list({ query: { metadata: info.metadata, startedAfter: info.startedAt } }).nextItems();
  assert.equal(since.length, 1);
});

test("a stored secret is named in a header of a rule, and its value is not shown", async () => {
  const name = `javascript-${Date.now()}`;
  const made = await Secret.create(name, "sk-javascript");
  assert.equal((await Secret.update(name, "sk-another")).version, 2);
  const headers = { Authorization: `Bearer ${Secret.fill(name)}` };
  await sandbox.updateNetwork({ rules: { "one.example.org": [{ transform: { headers } }] } });
  const { network } = await sandbox.getInfo();
  assert.deepEqual(network.rules["one.example.org"][0].transform.headers, headers);
  await sandbox.updateNetwork({});
  assert.ok(await Secret.destroy(made.secretId));
  assert.equal(await Secret.exists(name), false);
});

test("a form with a text uploads it to a signed address", async () => {
  const form = new FormData();
  form.append("file", "text");
  const answer = await fetch(await sandbox.uploadUrl("from a form.txt"), { method: "POST", body: form });
  assert.equal(answer.status, 200, await answer.text());
  assert.equal(await sandbox.files.read("from a form.txt"), "text");
});

test("code: values, output, errors, charts", async () => {
  const told = [];
  const done = await sandbox.runCode("import os\nprint('hi', os.environ['OURS'])\n6 * 7", {
    onStdout: (message) => told.push(message.line),
    onResult: (result) => told.push(result.text),
  });
  assert.equal(done.text, "42");
  assert.deepEqual(told, ["hi all\n", "42"]);
  const failed = await sandbox.runCode("1 / 0");
  assert.equal(failed.error.name, "ZeroDivisionError");
  const drawn = await sandbox.runCode("import matplotlib.pyplot as plt; plt.plot([1, 2], label='x'); plt.show()");
  assert.equal(drawn.results[0].chart.type, "line");
  assert.ok(drawn.results[0].png.startsWith("iVBOR"));
  assert.equal((await sandbox.runCode("1 + 1", { language: "js" })).text, "2");
});

test("contexts", async () => {
  const context = await sandbox.createCodeContext({ cwd: "/tmp" });
  await sandbox.runCode("x = 1", { context });
  assert.equal((await sandbox.runCode("x", { context })).text, "1");
  assert.equal((await sandbox.listCodeContexts()).at(-1).id, context.id);
  await sandbox.restartCodeContext(context);
  assert.equal((await sandbox.runCode("x", { context })).error.name, "NameError");
  await sandbox.removeCodeContext(context);
  // The client forgets to stop its clock when it is refused; with the usual minute, Node would wait for it at the end.
  await assert.rejects(sandbox.runCode("x", { context, requestTimeoutMs: 1000 }), NotFoundError);
});

test("a client that gives up interrupts its code", async () => {
  await assert.rejects(sandbox.runCode("import time\ny = 2\ntime.sleep(60)", { timeoutMs: 500 }), TimeoutError);
  assert.equal((await sandbox.runCode("y")).text, "2");
});

test("pause, resume, snapshots, forks", async () => {
  await sandbox.runCode("z = 3; open('note.txt', 'w').write('kept')");
  assert.equal(await sandbox.pause(), true);
  assert.equal(await sandbox.pause(), false);
  assert.equal(await sandbox.isRunning(), false);
  const again = await Sandbox.connect(sandbox.sandboxId);
  assert.equal((await again.runCode("z")).text, "3");
  const snapshot = await sandbox.createSnapshot();
  const copy = await Sandbox.create(snapshot.snapshotId);
  assert.equal((await copy.runCode("open('note.txt').read()")).text, "kept");
  await copy.kill();
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true);
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), false);
  const [fork] = await sandbox.fork();
  assert.equal((await fork.runCode("open('note.txt').read()")).text, "kept");
  assert.equal(await fork.kill(), true);
  assert.equal(await fork.kill(), false);
  await assert.rejects(Sandbox.connect(fork.sandboxId), SandboxNotFoundError);
});
