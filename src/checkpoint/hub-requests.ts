/**
 * Requests to the hub. Redirects are followed here, one by one, and not by fetch: files lie on other hosts, and only the
 * hub itself may see the token. Addresses of such hosts are signed, so that they are not shown either.
 */
import { describeCause, MistletoeError } from '../core/errors.js';
import type { HubId } from './hub-id.js';
import { formatHubId } from './hub-id.js';

export interface HubAccess {
  /** Without a slash at its end. */
  readonly endpoint: string;
  readonly token: string | undefined;
}

/** For whoever was interrupted. */
export const keptRemains = 'What was fetched is kept: the same command goes on from there.';

const mostRedirects = 8;
const redirections: readonly number[] = [301, 302, 303, 307, 308];

/** A response that is right; whatever else comes is a failure in words. `path` begins with a slash. */
export async function requestHub(
  access: HubAccess,
  id: HubId,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  const home = new URL(access.endpoint);
  let url = new URL(access.endpoint + path);
  for (let hop = 0; hop <= mostRedirects; hop++) {
    const mayKnowToken = access.token !== undefined && url.origin === home.origin;
    const response = await send(url, {
      'user-agent': 'mistletoe',
      ...headers,
      ...(mayKnowToken ? { authorization: `Bearer ${access.token}` } : {}),
    });
    if (response.ok) return response;
    await response.body?.cancel().catch(() => undefined);
    if (!redirections.includes(response.status)) throw describeRefusal(access, id, url, response);
    url = findNext(url, response);
  }
  throw new MistletoeError('network', `${home.host} redirects more than ${mostRedirects} times.`, {
    hint: 'Check HF_ENDPOINT, or try again later.',
  });
}

async function send(url: URL, headers: Readonly<Record<string, string>>): Promise<Response> {
  try {
    return await fetch(url, { headers, redirect: 'manual' });
  } catch (cause) {
    throw new MistletoeError('network', `${url.host} cannot be reached: ${describeReason(cause)}.`, {
      hint: 'Check the connection, or set HF_ENDPOINT to a mirror. What is in the cache needs no --download.',
      cause,
    });
  }
}

/** fetch says "fetch failed", and why in its cause; of several addresses that were tried each has one of its own. */
export function describeReason(cause: unknown): string {
  const reason = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause;
  const [first = reason] = reason instanceof AggregateError ? (reason.errors as unknown[]) : [];
  return describeCause(first);
}

function findNext(from: URL, { headers }: Response): URL {
  const location = headers.get('location');
  const next =
    location !== null && URL.canParse(location, from.href) ? new URL(location, from.href) : undefined;
  // Never from https to http, nor to a file, nor with a password in the address.
  const isSafe = next?.protocol === 'https:' || (next?.protocol === 'http:' && from.protocol === 'http:');
  if (next !== undefined && isSafe && next.username === '' && next.password === '') return next;
  throw new MistletoeError('network', `${from.host} redirects to an address that is not followed.`, {
    hint: 'Only https is followed, or http from http. Check HF_ENDPOINT.',
  });
}

/** The hub says in a header what a status alone does not: it answers 401 for models that do not exist, too. */
function describeRefusal(access: HubAccess, id: HubId, url: URL, response: Response): MistletoeError {
  const { status, headers } = response;
  const code = headers.get('x-error-code');
  const name = formatHubId(id);
  const home = new URL(access.endpoint);
  const page = `${access.endpoint}/${id.repository}`;
  if (url.origin !== home.origin || status === 429 || status >= 500) {
    return new MistletoeError('network', `${url.host} answered ${status} for ${name}.`, {
      hint: `Try again later. ${keptRemains}`,
    });
  }
  if (code === 'RevisionNotFound') {
    return new MistletoeError('usage', `${id.repository} has no revision ${id.revision} on ${home.host}.`, {
      hint: `${page} lists its branches and tags; without @REVISION it is main.`,
    });
  }
  if (status === 403 || code === 'GatedRepo') {
    return new MistletoeError('usage', `${name} is gated on ${home.host} (${status}).`, {
      hint: `Accept its licence on ${page}, and set HF_TOKEN to a token of your account${access.token === undefined ? '' : '; the one that was sent does not have the right'}.`,
    });
  }
  if (status === 401 && access.token !== undefined && code !== 'RepoNotFound') {
    return new MistletoeError('usage', `${home.host} refused the token for ${name} (401).`, {
      hint: 'Set HF_TOKEN to a token that is valid, or unset it for a public model.',
    });
  }
  if (status === 401 || status === 404) {
    return new MistletoeError(
      'usage',
      `There is no model ${name} on ${home.host} that may be seen (${status}).`,
      {
        hint: 'Check the spelling; for a private or gated model set HF_TOKEN to a token that may read it.',
      },
    );
  }
  return new MistletoeError('network', `${home.host} answered ${status} for ${name}.`, {
    hint: 'Check HF_ENDPOINT, or try again later.',
  });
}
