// A program as a user writes it. It is run by the end-to-end tests against a real server; it says `done` if all went well.

import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";

const [, , built, url, apiKey, signer, receiver] = process.argv;
const { Landfall, ProblemError, hasEnded } = await import(pathToFileURL(`${built}/index.js`));

const landfall = new Landfall({ url, apiKey });
const submission = (requestId, value = "1") => ({
  chainId: 31337,
  signer,
  requestId,
  payload: { to: receiver, value, gas: 21000 },
});

// A key is one transaction, however often it is sent.
const first = await landfall.submit(submission("typescript-1"));
const again = await landfall.submit(submission("typescript-1"));
assert.equal(again.txId, first.txId);
await assert.rejects(landfall.submit(submission("typescript-1", "2")), (error) => {
  assert.ok(error instanceof ProblemError);
  assert.equal(error.code, "request_id_reused");
  assert.equal(error.status, 422);
  return true;
});

const ended = await landfall.waitUntilEnded(first.txId, { timeoutMs: 60_000 });
assert.equal(ended.state, "confirmed");
assert.ok(hasEnded(ended.state));
assert.equal((await landfall.byRequest(signer, "typescript-1")).txId, first.txId);
const journal = await landfall.journal(first.txId);
assert.equal(journal[0].type, "accepted");
assert.equal(journal.at(-1).type, "confirmed");

// A batch: each as if alone.
const [good, bad] = await landfall.submitBatch([submission("typescript-2"), submission("typescript-3", "x")]);
assert.equal(good.status, 202);
assert.equal(bad.code, "bad_amount");

// A listener hears everything of a transaction, from the beginning, and ends when it is told to.
const names = [];
const stop = new AbortController();
for await (const event of landfall.events({ after: 0, txId: good.txId, signal: stop.signal })) {
  names.push(event.event);
  if (event.event === "tx.confirmed") stop.abort();
}
assert.equal(names[0], "tx.accepted");
assert.equal(names.at(-1), "tx.confirmed");

assert.equal((await landfall.list({ state: "confirmed", signer, limit: 10 })).items.length, 2);
assert.equal((await landfall.lanes())[0].signer, signer);
assert.equal((await landfall.lane(31337, signer)).inFlight, 0);
await assert.rejects(landfall.cancel(first.txId), (error) => error.code === "already_final");
await assert.rejects(landfall.get("nothing"), (error) => error.code === "not_found");
await assert.rejects(new Landfall({ url }).lanes(), (error) => error.code === "unauthorized");

const made = await landfall.createApiKey({ name: "from a program", role: "viewer" });
const viewer = new Landfall({ url, apiKey: made.key });
assert.equal((await viewer.get(first.txId)).txId, first.txId);
await assert.rejects(viewer.submit(submission("typescript-4")), (error) => error.code === "forbidden");
assert.equal((await landfall.revokeApiKey(made.id)).state, "revoked");

console.log("done");
