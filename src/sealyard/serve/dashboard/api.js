// The client of /api/v1 on the gateway that serves this page. Nothing else is contacted.

const ROOT = new URL("../api/v1/", import.meta.url);
const ANSWER_SECONDS = 30;
const asked = new Set();

/** An error response of the gateway. `status` is 0 if there was no response. */
export class Refusal extends Error {
  constructor(status, code, message, { requestId = "", retrySeconds = null } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.requestId = requestId;
    this.retrySeconds = retrySeconds;
  }
}

/** The URL of an endpoint; null values in `query` are left out. */
export function address(path, query = {}) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

/** Data escaped as one path segment. */
export function segment(text) {
  return encodeURIComponent(text);
}

/** Send a GET request and return the JSON. Throws `Refusal`. */
export function get(path, query) {
  return request("GET", address(path, query));
}

/** Send a request with a JSON body. Throws `Refusal`. */
export function send(method, path, body) {
  return request(method, address(path), body ?? {});
}

/** The readiness of the gateway: `{ready, reason, parts}`. Throws `Refusal`. */
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
    throw new Refusal(status, "internal", "The gateway's response is not JSON. Check for a proxy in between.");
  }
}

/** Resolves when no request is in flight. */
export async function quiet() {
  await Promise.allSettled(asked);
}

function reach(url, options) {
  const answer = ask(url, options).finally(() => asked.delete(answer));
  asked.add(answer);
  return answer;
}

/** The response with its full text; a gateway that stops midway counts as unreachable. */
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
    throw new Refusal(0, "unreachable", "No response from the gateway.");
  }
}
