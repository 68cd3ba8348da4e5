/**
 * Three requests of the hub's documented API. The library @huggingface/hub has 5 MB, and neither resumes downloads
 * nor checks hashes.
 * Redirects are followed here, not by fetch: files are on other hosts, and only the hub may see the token. URLs of
 * those hosts are signed, so messages do not show them.
 */
import { z } from 'zod';
import { describeFetchFailure, MistletoeError } from '../../core/errors.js';
import { parseJsonText } from '../../core/json-text.js';
import { fileLimits } from '../../core/limits.js';
import { quote } from '../stored-tensor.js';
import { formatHubId, type HubId, type HubSettings } from './hub-settings.js';

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

export interface HubRepository {
  readonly id: HubId;
  readonly host: string;
  readonly commit: string;
  listFiles(): Promise<readonly HubFile[]>;
  openFile(path: string, firstByte: number): Promise<HubBody>;
}

export async function openRepository(
  id: HubId,
  { endpoint, readToken }: HubSettings,
): Promise<HubRepository> {
  const access: HubAccess = { id, endpoint, token: await readToken(), host: new URL(endpoint).host };
  const { host } = access;
  const api = `/api/${kindOf(id)}s/${id.repository}`;
  const revision = `${api}/revision/${encodeURIComponent(id.revision)}`;
  const { sha: commit } = (await requestJson(access, revision, commitSchema)).value;
  return {
    id,
    host,
    commit,
    async listFiles() {
      const files: HubFile[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < maxPages; page++) {
        const query = `recursive=true${cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
        const { value, link } = await requestJson(access, `${api}/tree/${commit}?${query}`, treeSchema);
        for (const entry of value) if (entry.type === 'file') files.push(toFile(access, entry));
        cursor = findCursor(link);
        if (cursor === undefined) return files;
      }
      const fault = `${host} lists more than ${maxPages} pages of files for ${id.repository}.`;
      throw failure(fault, 'A repository of one model was expected: check the name.');
    },
    async openFile(path, firstByte) {
      const home = id.kind === 'dataset' ? '/datasets' : '';
      const escaped = path.split('/').map(encodeURIComponent).join('/');
      const response = await request(access, `${home}/${id.repository}/resolve/${commit}/${escaped}`, {
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

interface HubAccess {
  readonly id: HubId;
  readonly endpoint: string;
  readonly host: string;
  readonly token: string | undefined;
}

export const resumeHint = 'The partial download is kept: run the same command to resume it.';
const checkEndpoint = 'Check HF_ENDPOINT, or try again later.';

const kindOf = ({ kind }: HubId): string => kind ?? 'model';

function failure(message: string, hint: string, cause?: unknown): MistletoeError {
  return new MistletoeError('network', message, { hint, cause });
}

const maxRedirects = 8;
const redirections: readonly number[] = [301, 302, 303, 307, 308];

async function request(
  access: HubAccess,
  path: string,
  headers: Readonly<Record<string, string>>,
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
    if (!redirections.includes(response.status)) throw describeRefusal(access, url, response);
    url = findNext(url, response);
  }
  throw failure(`${home.host} redirects more than ${maxRedirects} times.`, checkEndpoint);
}

async function send(url: URL, headers: Readonly<Record<string, string>>): Promise<Response> {
  try {
    return await fetch(url, { headers, redirect: 'manual' });
  } catch (cause) {
    throw failure(
      `${url.host} cannot be reached: ${describeFetchFailure(cause)}.`,
      'Check the connection, or set HF_ENDPOINT to a mirror. What is in the cache needs no --download.',
      cause,
    );
  }
}

/** Never from https to http, to another protocol, or with a password in the URL. */
function findNext(from: URL, { headers }: Response): URL {
  const location = headers.get('location') ?? '';
  const next = URL.canParse(location, from.href) ? new URL(location, from.href) : undefined;
  const isSafe = next?.protocol === 'https:' || (next?.protocol === 'http:' && from.protocol === 'http:');
  const isGiven = headers.has('location') && next?.username === '' && next.password === '';
  if (next !== undefined && isSafe && isGiven) return next;
  const hint = 'Only https is followed, or http from http. Check HF_ENDPOINT.';
  throw failure(`${from.host} redirects to an address that is not followed.`, hint);
}

/** The status alone is not enough: the hub also answers 401 for models that do not exist. */
function describeRefusal(access: HubAccess, url: URL, { status, headers }: Response): MistletoeError {
  const { id, host, endpoint, token } = access;
  const code = headers.get('x-error-code');
  const name = formatHubId(id);
  const page = `${endpoint}/${id.repository}`;
  const refuse = (message: string, hint: string): MistletoeError =>
    new MistletoeError('usage', message, { hint });
  if (url.origin !== new URL(endpoint).origin || status === 429 || status >= 500)
    return failure(`${url.host} answered ${status} for ${name}.`, `Try again later. ${resumeHint}`);
  if (code === 'RevisionNotFound') {
    const hint = `${page} lists its branches and tags; without @REVISION it is main.`;
    return refuse(`${id.repository} has no revision ${id.revision} on ${host}.`, hint);
  }
  if (status === 403 || code === 'GatedRepo') {
    const wrong = token === undefined ? '' : '; the one that was sent does not have the right';
    return refuse(
      `${name} is gated on ${host} (${status}).`,
      `Accept its licence on ${page}, and set HF_TOKEN to a token of your account${wrong}.`,
    );
  }
  if (status === 401 && token !== undefined && code !== 'RepoNotFound') {
    const hint = 'Set HF_TOKEN to a token that is valid, or unset it for a public model.';
    return refuse(`${host} refused the token for ${name} (401).`, hint);
  }
  if (status === 401 || status === 404) {
    return refuse(
      `There is no ${kindOf(id)} ${name} on ${host} that may be seen (${status}).`,
      'Check the spelling; for a private or gated model set HF_TOKEN to a token that may read it.',
    );
  }
  return failure(`${host} answered ${status} for ${name}.`, checkEndpoint);
}

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
function toFile({ id, host }: HubAccess, { path, size: own, oid, lfs }: FileEntry): HubFile {
  const parts = path.split('/');
  const escapes = /[\\:\p{Cc}]/u.test(path) || parts.some((part) => ['', '.', '..'].includes(part));
  if (!escapes) return { path, sizeBytes: lfs?.size ?? own, hash: lfs?.oid ?? oid };
  throw failure(
    `${host} lists the file ${quote(path)} for ${formatHubId(id)}, which does not stay inside its folder.`,
    'Do not trust it: neither the repository nor the server, if HF_ENDPOINT names one.',
  );
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
  path: string,
  schema: Schema,
): Promise<{ readonly value: z.infer<Schema>; readonly link: string | null }> {
  const { host } = access;
  const unexpected = (seen: string, cause?: unknown): MistletoeError =>
    failure(
      `${host} answered for ${formatHubId(access.id)} with ${seen}.`,
      'Check HF_ENDPOINT: it must be the address of a Hugging Face hub or of a mirror.',
      cause,
    );
  const response = await request(access, path, { accept: 'application/json' });
  const parts: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of readBody(host, response)) {
    sizeBytes += chunk.byteLength;
    if (sizeBytes > fileLimits.hubAnswer) throw unexpected(`more than ${fileLimits.hubAnswer} bytes`);
    parts.push(chunk);
  }
  try {
    const value = schema.parse(parseJsonText(Buffer.concat(parts).toString('utf8')));
    return { value, link: response.headers.get('link') };
  } catch (cause) {
    throw unexpected(cause instanceof SyntaxError ? 'no JSON' : 'other JSON than the API has', cause);
  }
}

async function* readBody(host: string, { body }: Response): AsyncGenerator<Uint8Array> {
  if (body === null) return;
  try {
    for await (const chunk of body as AsyncIterable<Uint8Array>) yield chunk;
  } catch (cause) {
    throw failure(`The connection to ${host} broke: ${describeFetchFailure(cause)}.`, resumeHint, cause);
  }
}

/** "bytes 100-199/200" */
function readRange(host: string, { headers }: Response): number {
  const [, first] = /^bytes (\d+)-/.exec(headers.get('content-range') ?? '') ?? [];
  if (first !== undefined) return Number(first);
  throw failure(`${host} sent a part of a file and did not say which.`, checkEndpoint);
}
