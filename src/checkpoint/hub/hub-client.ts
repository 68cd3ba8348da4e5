/**
 * Three requests of the hub's documented API. The library @huggingface/hub has 5 MB, and neither resumes downloads
 * nor checks hashes.
 */
import { z } from 'zod';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { parseJsonText } from '../../core/json-text.js';
import { fileLimits } from '../../core/limits.js';
import { quote } from '../stored-tensor.js';
import type { HubId } from './hub-settings.js';
import { formatHubId } from './hub-settings.js';

/**
 * Redirects are followed here, not by fetch: files are on other hosts, and only the hub may see the token. URLs of
 * those hosts are signed, so messages do not show them.
 */
interface HubAccess {
  readonly endpoint: string;
  readonly token: string | undefined;
}

export const resumeHint = 'The partial download is kept: run the same command to resume it.';

const maxRedirects = 8;
const redirections: readonly number[] = [301, 302, 303, 307, 308];

async function requestHub(
  access: HubAccess,
  id: HubId,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  const home = new URL(access.endpoint);
  let url = new URL(access.endpoint + path);
  for (let hop = 0; hop <= maxRedirects; hop++) {
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
  throw new MistletoeError('network', `${home.host} redirects more than ${maxRedirects} times.`, {
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

/** fetch says "fetch failed" and has the reason in its cause, one per address that it tried. */
function describeReason(cause: unknown): string {
  const reason = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause;
  const [first = reason] = reason instanceof AggregateError ? (reason.errors as unknown[]) : [];
  return describeCause(first);
}

function findNext(from: URL, { headers }: Response): URL {
  const location = headers.get('location');
  const next =
    location !== null && URL.canParse(location, from.href) ? new URL(location, from.href) : undefined;
  // Never from https to http, to another protocol, or with a password in the URL.
  const isSafe = next?.protocol === 'https:' || (next?.protocol === 'http:' && from.protocol === 'http:');
  if (next !== undefined && isSafe && next.username === '' && next.password === '') return next;
  throw new MistletoeError('network', `${from.host} redirects to an address that is not followed.`, {
    hint: 'Only https is followed, or http from http. Check HF_ENDPOINT.',
  });
}

/** The status alone is not enough: the hub also answers 401 for models that do not exist. */
function describeRefusal(access: HubAccess, id: HubId, url: URL, response: Response): MistletoeError {
  const { status, headers } = response;
  const code = headers.get('x-error-code');
  const name = formatHubId(id);
  const home = new URL(access.endpoint);
  const page = `${access.endpoint}/${id.repository}`;
  if (url.origin !== home.origin || status === 429 || status >= 500) {
    return new MistletoeError('network', `${url.host} answered ${status} for ${name}.`, {
      hint: `Try again later. ${resumeHint}`,
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
      `There is no ${kindOf(id)} ${name} on ${home.host} that may be seen (${status}).`,
      {
        hint: 'Check the spelling; for a private or gated model set HF_TOKEN to a token that may read it.',
      },
    );
  }
  return new MistletoeError('network', `${home.host} answered ${status} for ${name}.`, {
    hint: 'Check HF_ENDPOINT, or try again later.',
  });
}

export interface HubFile {
  readonly path: string;
  readonly sizeBytes: number;
  /** sha256 of large files (LFS, Xet), git's blob hash of small ones. It is the file's name in the cache. */
  readonly hash: string;
}

export interface HubBody {
  /** 0 if the server has no range support. */
  readonly firstByte: number;
  readonly chunks: AsyncIterable<Uint8Array>;
}

export interface HubClient {
  readonly host: string;
  findCommit(id: HubId): Promise<string>;
  listFiles(id: HubId, commit: string): Promise<readonly HubFile[]>;
  openFile(id: HubId, commit: string, path: string, firstByte: number): Promise<HubBody>;
}

export function createHubClient(access: HubAccess): HubClient {
  const { host } = new URL(access.endpoint);
  return {
    host,
    async findCommit(id) {
      const path = `/api/${kindOf(id)}s/${id.repository}/revision/${encodeURIComponent(id.revision)}`;
      const { value } = await requestJson(access, id, path, commitSchema);
      return value.sha;
    },
    async listFiles(id, commit) {
      const files: HubFile[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < maxPages; page++) {
        const query = `recursive=true${cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
        const path = `/api/${kindOf(id)}s/${id.repository}/tree/${commit}?${query}`;
        const { value, link } = await requestJson(access, id, path, treeSchema);
        for (const entry of value) if (entry.type === 'file') files.push(toFile(id, host, entry));
        cursor = findCursor(link);
        if (cursor === undefined) return files;
      }
      throw new MistletoeError(
        'network',
        `${host} lists more than ${maxPages} pages of files for ${id.repository}.`,
        { hint: 'A repository of one model was expected: check the name.' },
      );
    },
    async openFile(id, commit, path, firstByte) {
      const home = id.kind === 'dataset' ? '/datasets' : '';
      const address = `${home}/${id.repository}/resolve/${commit}/${path.split('/').map(encodeURIComponent).join('/')}`;
      const response = await requestHub(access, id, address, {
        'accept-encoding': 'identity', // a range must be in bytes of the file itself, not of a compressed one
        ...(firstByte === 0 ? {} : { range: `bytes=${firstByte}-` }),
      });
      return {
        firstByte: response.status === 206 ? readRange(host, response) : 0,
        chunks: readBody(host, response),
      };
    },
  };
}

const kindOf = ({ kind }: HubId): string => kind ?? 'model';

const maxPages = 100;
const hexadecimal = (digits: number): z.ZodString => z.string().regex(new RegExp(`^[0-9a-f]{${digits}}$`));
const size = z.int().nonnegative();
const commitSchema = z.object({ sha: hexadecimal(40) });
const treeSchema = z.array(
  z.discriminatedUnion('type', [
    z.object({ type: z.enum(['directory', 'unknown']) }),
    z.object({
      type: z.literal('file'),
      path: z.string(),
      size,
      oid: hexadecimal(40),
      lfs: z.object({ oid: hexadecimal(64), size }).optional(),
    }),
  ]),
);
type FileEntry = Extract<z.infer<typeof treeSchema>[number], { readonly type: 'file' }>;

/** The name is untrusted: it must not lead out of the folder on any platform. */
function toFile(id: HubId, host: string, { path, size: own, oid, lfs }: FileEntry): HubFile {
  const parts = path.split('/');
  const escapes = /[\\:\p{Cc}]/u.test(path) || parts.some((part) => ['', '.', '..'].includes(part));
  if (escapes) {
    throw new MistletoeError(
      'network',
      `${host} lists the file ${quote(path)} for ${formatHubId(id)}, which does not stay inside its folder.`,
      { hint: 'Do not trust it: neither the repository nor the server, if HF_ENDPOINT names one.' },
    );
  }
  return { path, sizeBytes: lfs?.size ?? own, hash: lfs?.oid ?? oid };
}

/** Only the cursor of the next page's URL is used: mirrors name the original hub in it. */
function findCursor(link: string | null): string | undefined {
  const [, address = ''] = /<([^>]+)>\s*;\s*rel="next"/.exec(link ?? '') ?? [];
  const base = 'http://localhost';
  return URL.canParse(address, base)
    ? (new URL(address, base).searchParams.get('cursor') ?? undefined)
    : undefined;
}

async function requestJson<Schema extends z.ZodType>(
  access: HubAccess,
  id: HubId,
  path: string,
  schema: Schema,
): Promise<{ readonly value: z.infer<Schema>; readonly link: string | null }> {
  const { host } = new URL(access.endpoint);
  const response = await requestHub(access, id, path, { accept: 'application/json' });
  const parts: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of readBody(host, response)) {
    sizeBytes += chunk.byteLength;
    if (sizeBytes > fileLimits.hubAnswer)
      throw unexpectedAnswer(host, id, `more than ${fileLimits.hubAnswer} bytes`);
    parts.push(chunk);
  }
  try {
    const value = schema.parse(parseJsonText(Buffer.concat(parts).toString('utf8')));
    return { value, link: response.headers.get('link') };
  } catch (cause) {
    throw unexpectedAnswer(
      host,
      id,
      cause instanceof SyntaxError ? 'no JSON' : 'other JSON than the API has',
      cause,
    );
  }
}

function unexpectedAnswer(host: string, id: HubId, seen: string, cause?: unknown): MistletoeError {
  return new MistletoeError('network', `${host} answered for ${formatHubId(id)} with ${seen}.`, {
    hint: 'Check HF_ENDPOINT: it must be the address of a Hugging Face hub or of a mirror.',
    cause,
  });
}

async function* readBody(host: string, { body }: Response): AsyncGenerator<Uint8Array> {
  if (body === null) return;
  try {
    for await (const chunk of body as AsyncIterable<Uint8Array>) yield chunk;
  } catch (cause) {
    throw new MistletoeError('network', `The connection to ${host} broke: ${describeReason(cause)}.`, {
      hint: resumeHint,
      cause,
    });
  }
}

/** "bytes 100-199/200" */
function readRange(host: string, { headers }: Response): number {
  const [, first] = /^bytes (\d+)-/.exec(headers.get('content-range') ?? '') ?? [];
  if (first !== undefined) return Number(first);
  throw new MistletoeError('network', `${host} sent a part of a file and did not say which.`, {
    hint: 'Check HF_ENDPOINT, or try again later.',
  });
}
