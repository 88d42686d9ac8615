// Talks to /api/v1 of the gateway that this page came from, and to nothing else.

const ROOT = new URL("../api/v1/", import.meta.url);
const ANSWER_SECONDS = 30;
const asked = new Set();

/** What the gateway answered when it did not answer what was asked. `status` is 0 if it did not answer at all. */
export class Refusal extends Error {
  constructor(status, code, message, { requestId = "", retrySeconds = null } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.requestId = requestId;
    this.retrySeconds = retrySeconds;
  }
}

/** The address of an endpoint; values in `query` that are null are left out. */
export function address(path, query = {}) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

/** One segment of a path, from data. */
export function segment(text) {
  return encodeURIComponent(text);
}

/** GET; the JSON of the answer. Throws `Refusal`. */
export function get(path, query) {
  return request("GET", address(path, query));
}

/** POST or another method with a JSON body. Throws `Refusal`. */
export function send(method, path, body) {
  return request(method, address(path), body ?? {});
}

/** Whether every part of the gateway works: `{ready, reason, parts}`. Throws `Refusal`. */
export async function readiness() {
  const { text } = await reach(new URL("../../readyz", ROOT), {});
  return parsed(text);
}

async function request(method, url, body) {
  const options = { method };
  if (body !== undefined) {
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  const { answer, text } = await reach(url, options);
  const value = text === "" ? null : parsed(text, answer.status);
  if (answer.ok) return value;
  const error = value?.error ?? {};
  const message = typeof error === "string" ? error : (error.message ?? `The gateway answered ${answer.status}.`);
  const retry = Number.parseFloat(answer.headers.get("Retry-After") ?? "");
  throw new Refusal(answer.status, error.code ?? "", message, {
    requestId: error.request_id ?? "",
    retrySeconds: Number.isFinite(retry) ? retry : null,
  });
}

function parsed(text, status = 0) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Refusal(status, "internal", "The gateway's answer is no JSON. Is there a proxy in between?");
  }
}

/** Resolves when all that was asked until now is answered or given up. */
export async function quiet() {
  await Promise.allSettled(asked);
}

function reach(url, options) {
  const answer = ask(url, options).finally(() => asked.delete(answer));
  asked.add(answer);
  return answer;
}

/** The answer with its whole text: a gateway may as well fall silent in the middle of it. */
async function ask(url, options) {
  try {
    const answer = await fetch(url, {
      ...options,
      cache: "no-store",
      redirect: "error",
      credentials: "same-origin",
      signal: AbortSignal.timeout(ANSWER_SECONDS * 1000),
    });
    return { answer, text: await answer.text() };
  } catch {
    throw new Refusal(0, "unreachable", "The gateway does not answer.");
  }
}
