// Asks the service. The token is kept for the life of this tab, and travels in a header alone.

const stored = 'feedfilter.token';
const timeout = 15_000; // milliseconds

/** ApiError is what the service answered instead: status 0 where it did not. */
export class ApiError extends Error {
  constructor(status, code, message, field = '') {
    super(message);
    this.status = status;
    this.code = code;
    this.field = field;
  }
}

/**
 * ask returns the decoded answer of a call. path has no leading slash, because the service may be
 * below a prefix.
 */
export async function ask(path, { method = 'GET', body, signal } = {}) {
  const headers = {};
  const token = sessionStorage.getItem(stored);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const limit = AbortSignal.timeout(timeout);
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      cache: 'no-store',
      credentials: 'same-origin',
    });
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw new ApiError(0, 'unreachable', limit.aborted ? 'The service does not answer.' : 'The service cannot be reached.', String(error));
  }
  const value = await answer.json().catch(() => null);
  if (answer.ok && value !== null) return value;
  throw new ApiError(answer.status, value?.error?.code ?? 'unknown',
    value?.error?.message ?? `The service answered with status ${answer.status}.`, value?.error?.field);
}

export const token = {
  has: () => sessionStorage.getItem(stored) !== null,
  keep: (value) => sessionStorage.setItem(stored, value),
  forget: () => sessionStorage.removeItem(stored),
};
