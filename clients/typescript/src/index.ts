// Landfall's API for TypeScript and JavaScript. `schema.ts` is made from the server's OpenAPI document; this file adds
// calls, problems as errors, idempotency keys, and events that survive lost connections.

import type { components } from "./schema.js";

type Schemas = components["schemas"];

export type Submission = Schemas["Submission"];
export type Accepted = Schemas["Accepted"];
export type Transaction = Schemas["Transaction"];
export type TransactionDetail = Schemas["TransactionDetail"];
export type RemovedTransaction = Schemas["RemovedTransaction"];
export type JournalEntry = Schemas["JournalEntry"];
export type State = Schemas["State"];
export type Lane = Schemas["Lane"];
export type Problem = Schemas["Problem"];
export type ProblemCode = Problem["code"];
export type LandfallEvent = Schemas["Event"];
export type ApiKey = Schemas["ApiKey"];
export type { components, operations, paths } from "./schema.js";

/** The server's own refusal. `code` is stable; `message` is for people. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";
  constructor(
    readonly problem: Problem,
    /** After how many seconds it may be asked again. */
    readonly retryAfter?: number,
  ) {
    super(`${problem.detail} (${problem.code})`);
  }
  get code(): ProblemCode {
    return this.problem.code;
  }
  get status(): number {
    return this.problem.status;
  }
}

export interface LandfallOptions {
  /** Such as `http://127.0.0.1:8645`. */
  url: string;
  /** An API key; a server that is open needs none. */
  apiKey?: string;
  /** How long one call may take. */
  timeoutMs?: number;
  /** Another `fetch`. */
  fetch?: typeof fetch;
}

export interface TransactionFilter {
  state?: State;
  signer?: string;
  chainId?: number;
  /** Of any attempt. */
  hash?: string;
  cursor?: string;
  limit?: number;
}

export interface EventFilter {
  /** Go on after the event of this number; 0 for all there are. Left out: from now on. */
  after?: number;
  chainId?: number;
  signer?: string;
  txId?: string;
  types?: NonNullable<LandfallEvent["event"]>[];
  /** Ends the listening. */
  signal?: AbortSignal;
}

const ENDED: readonly State[] = ["confirmed", "reverted", "failed", "cancelled", "expired"];

/** Never left again. */
export function hasEnded(state: State): boolean {
  return ENDED.includes(state);
}

type Query = Record<string, string | number | undefined>;

export class Landfall {
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #timeoutMs: number;
  readonly #fetch: typeof fetch;

  constructor({ url, apiKey, timeoutMs = 30_000, fetch: own = fetch }: LandfallOptions) {
    this.#url = url.replace(/\/+$/, "");
    this.#headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
    this.#timeoutMs = timeoutMs;
    // A browser's fetch must be called as its own.
    this.#fetch = (input, init) => own(input, init);
  }

  /**
   * Hands a transaction over; when this answers, it is on disk. It always has a key: yours, or a new one, with which lost
   * answers are asked for again without a second transaction.
   */
  async submit(submission: Submission, { tries = 5 }: { tries?: number } = {}): Promise<Accepted> {
    const body = { ...submission, requestId: submission.requestId ?? crypto.randomUUID() };
    for (let left = tries; ; left -= 1) {
      try {
        return await this.#call<Accepted>("POST", "/tx", { body });
      } catch (error) {
        if (left <= 1 || !isTransient(error)) throw error;
        const asked = error instanceof ProblemError ? error.retryAfter : undefined;
        await sleep(asked === undefined ? 250 : asked * 1000);
      }
    }
  }

  /** Hands many over; what became of each is in their order. */
  async submitBatch(submissions: Submission[]): Promise<Schemas["BatchItem"][]> {
    const answer = await this.#call<Schemas["BatchAnswer"]>("POST", "/tx/batch", { body: submissions });
    return answer.items;
  }

  get(txId: string): Promise<TransactionDetail | RemovedTransaction> {
    return this.#call("GET", `/tx/${encodeURIComponent(txId)}`);
  }

  /** Finds a transaction by your own key. */
  byRequest(signer: string, requestId: string): Promise<TransactionDetail | RemovedTransaction> {
    return this.#call("GET", "/tx/by-request", { query: { signer, requestId } });
  }

  /** One page, newest first. */
  list(filter: TransactionFilter = {}): Promise<Schemas["TransactionPage"]> {
    return this.#call("GET", "/tx", { query: { ...filter } });
  }

  /** Everything that happened to a transaction, oldest first. */
  async journal(txId: string): Promise<JournalEntry[]> {
    const page = await this.#call<Schemas["JournalPage"]>("GET", `/tx/${encodeURIComponent(txId)}/journal`);
    return page.items;
  }

  /** Waits until a transaction has ended, however it did. */
  async waitUntilEnded(
    txId: string,
    { timeoutMs = 300_000, everyMs = 250 }: { timeoutMs?: number; everyMs?: number } = {},
  ): Promise<TransactionDetail | RemovedTransaction> {
    const end = Date.now() + timeoutMs;
    for (;;) {
      const tx = await this.get(txId);
      if (hasEnded(tx.state)) return tx;
      if (Date.now() > end) throw new Error(`${txId} has not ended after ${timeoutMs} ms; it goes on all the same`);
      await sleep(everyMs);
    }
  }

  cancel(txId: string, idempotencyKey?: string): Promise<Schemas["CommandAccepted"]> {
    return this.#onTx(txId, "cancel", undefined, idempotencyKey);
  }

  replace(txId: string, to: Schemas["Replacement"], idempotencyKey?: string): Promise<Schemas["CommandAccepted"]> {
    return this.#onTx(txId, "replace", to, idempotencyKey);
  }

  speedUp(txId: string, price: Schemas["SpeedUp"] = {}, idempotencyKey?: string): Promise<Schemas["CommandAccepted"]> {
    return this.#onTx(txId, "speed-up", price, idempotencyKey);
  }

  approve(txId: string, decision: Schemas["Decision"] = {}): Promise<Schemas["CommandAccepted"]> {
    return this.#onTx(txId, "approve", decision);
  }

  reject(txId: string, decision: Schemas["Decision"] = {}): Promise<Schemas["CommandAccepted"]> {
    return this.#onTx(txId, "reject", decision);
  }

  /** Whose transaction took its nonce and does the same, by the word of a person. */
  settle(txId: string, settlement: Schemas["Settlement"]): Promise<Schemas["CommandAccepted"]> {
    return this.#onTx(txId, "settle", settlement);
  }

  /** Does an ended one again, as a new one. Asking twice gives the same. */
  retry(txId: string, how: Schemas["Retry"] = {}): Promise<Schemas["RetryAccepted"]> {
    return this.#onTx(txId, "retry", how);
  }

  async lanes(): Promise<Lane[]> {
    const page = await this.#call<Schemas["LanePage"]>("GET", "/lanes");
    return page.items;
  }

  lane(chainId: number, signer: string): Promise<Lane> {
    return this.#call("GET", `/lanes/${chainId}/${encodeURIComponent(signer)}`);
  }

  steerLane(
    chainId: number,
    signer: string,
    verb: "pause" | "resume" | "disable" | "reset",
  ): Promise<Schemas["CommandAccepted"]> {
    return this.#call("POST", `/lanes/${chainId}/${encodeURIComponent(signer)}/${verb}`);
  }

  cancelAll(chainId: number, signer: string): Promise<Schemas["AllCancelled"]> {
    return this.#call("POST", `/lanes/${chainId}/${encodeURIComponent(signer)}/cancel-all`);
  }

  createApiKey(key: Schemas["NewApiKey"]): Promise<Schemas["ApiKeyMade"]> {
    return this.#call("POST", "/api-keys", { body: key });
  }

  async apiKeys(): Promise<ApiKey[]> {
    const page = await this.#call<Schemas["ApiKeyPage"]>("GET", "/api-keys");
    return page.items;
  }

  revokeApiKey(id: string): Promise<ApiKey> {
    return this.#call("DELETE", `/api-keys/${encodeURIComponent(id)}`);
  }

  /** What happens, as it happens. A connection that is lost is made again, from where it was. */
  async *events({ signal, types, after, ...filter }: EventFilter = {}): AsyncGenerator<LandfallEvent, void, void> {
    let last = after;
    let wait = 100;
    while (!signal?.aborted) {
      try {
        const query: Query = { ...filter, types: types?.join(","), after: last };
        const response = await this.#fetch(this.#address("/events", query), {
          headers: { ...this.#headers, accept: "text/event-stream" },
          signal: signal ?? null,
        });
        if (!response.ok) throw await problem(response);
        for await (const event of parse(response)) {
          wait = 100;
          last = event.seq;
          yield event;
        }
      } catch (error) {
        if (signal?.aborted) return;
        if (!isTransient(error)) throw error;
      }
      await sleep(wait);
      wait = Math.min(wait * 2, 5_000);
    }
  }

  #onTx<T>(txId: string, verb: string, body?: unknown, idempotencyKey?: string): Promise<T> {
    const headers: Record<string, string> = idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey };
    return this.#call("POST", `/tx/${encodeURIComponent(txId)}/${verb}`, { body, headers });
  }

  #address(path: string, query: Query = {}): string {
    const parameters = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) parameters.set(name, String(value));
    }
    const text = parameters.toString();
    return `${this.#url}/api/v1${path}${text && `?${text}`}`;
  }

  async #call<T>(
    method: string,
    path: string,
    { query, body, headers }: { query?: Query; body?: unknown; headers?: Record<string, string> } = {},
  ): Promise<T> {
    const all: Record<string, string> = { ...this.#headers, ...headers };
    if (body !== undefined) all["content-type"] = "application/json";
    const response = await this.#fetch(this.#address(path, query), {
      method,
      headers: all,
      body: body === undefined ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(this.#timeoutMs),
    });
    if (!response.ok) throw await problem(response);
    return (await response.json()) as T;
  }
}

async function problem(response: Response): Promise<Error> {
  if (!response.headers.get("content-type")?.includes("application/problem+json")) {
    return new Error(`${response.url} does not answer like Landfall (HTTP ${response.status})`);
  }
  const after = response.headers.get("retry-after");
  return new ProblemError((await response.json()) as Problem, after === null ? undefined : Number(after));
}

/** The same call may go well later: nobody answered, or the server says so. */
function isTransient(error: unknown): boolean {
  if (error instanceof ProblemError) return error.status === 503 || error.status === 429;
  return error instanceof TypeError || (error instanceof DOMException && error.name === "TimeoutError");
}

async function* parse(response: Response): AsyncGenerator<LandfallEvent> {
  if (response.body === null) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const block = text.slice(0, end);
        text = text.slice(end + 2);
        const data = block.split("\n").filter((line) => line.startsWith("data:"));
        if (data.length > 0) yield JSON.parse(data.map((line) => line.slice(5).trimStart()).join("\n"));
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
