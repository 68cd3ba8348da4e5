/**
 * Three requests of the hub's documented API. The library @huggingface/hub has 5 MB, and neither resumes downloads
 * nor checks hashes.
 * Redirects are followed here, not by fetch: files are on other hosts, and only the hub may see the token. URLs of
 * those hosts are signed, so messages do not show them.
 */
import * as z from '../../core/schema.js';
import { describeFetchFailure, MistletoeError } from '../../core/errors.js';
import { parseJsonText, TooManyValues } from '../../core/json-text.js';
import { fileLimits } from '../../core/limits.js';
import { staysInside } from '../checkpoint-folder.js';
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

export const resumeHint = 'The partial download is kept: run the same command to resume it.';
const checkEndpoint = 'Check HF_ENDPOINT, or try again later.';

function failure(message: string, hint: string, cause?: unknown): MistletoeError {
  return new MistletoeError('network', message, { hint, cause });
}

const maxRedirects = 8;
const redirections: readonly number[] = [301, 302, 303, 307, 308];
const maxPages = 100;
/** Of one answer: a page of 1,000 files has some 10,000. */
const maxValues = 1_000_000;
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

/** One commit of a repository. */
export class HubRepository {
  readonly host: string;
  commit = '';
  private readonly name: string;

  private constructor(
    readonly id: HubId,
    private readonly endpoint: string,
    private readonly token: string | undefined,
  ) {
    this.host = new URL(endpoint).host;
    this.name = formatHubId(id);
  }

  static async open(id: HubId, { endpoint, readToken }: HubSettings): Promise<HubRepository> {
    const repository = new HubRepository(id, endpoint, await readToken());
    const path = `revision/${encodeURIComponent(id.revision)}`;
    repository.commit = (await repository.requestJson(path, commitSchema)).value.sha;
    return repository;
  }

  async listFiles(): Promise<readonly HubFile[]> {
    const files: HubFile[] = [];
    let cursor = '';
    for (let page = 0; page < maxPages; page++) {
      const from = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
      const path = `tree/${this.commit}?recursive=true${from}`;
      const { value, link } = await this.requestJson(path, treeSchema);
      for (const entry of value) {
        if (entry.type !== 'file') continue;
        this.requireInside(entry.path);
        const { oid: hash, size: sizeBytes } = entry.lfs ?? entry;
        files.push({ path: entry.path, sizeBytes, hash });
      }
      cursor = findCursor(link);
      if (cursor === '') return files;
    }
    const fault = `${this.host} lists more than ${maxPages} pages of files for ${this.id.repository}.`;
    throw failure(fault, 'A repository of one model was expected: check the name.');
  }

  async openFile(path: string, firstByte: number): Promise<HubBody> {
    const home = this.id.kind === 'dataset' ? '/datasets' : '';
    const escaped = path.split('/').map(encodeURIComponent).join('/');
    const response = await this.request(`${home}/${this.id.repository}/resolve/${this.commit}/${escaped}`, {
      'accept-encoding': 'identity', // a range must be in bytes of the file itself, not of a compressed one
      ...(firstByte === 0 ? {} : { range: `bytes=${firstByte}-` }),
    });
    const chunks = readBody(this.host, response);
    if (response.status !== 206) return { firstByte: 0, chunks };
    // "bytes 100-199/200"
    const [, first] = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '') ?? [];
    if (first !== undefined) return { firstByte: Number(first), chunks };
    throw failure(`${this.host} sent a part of a file and did not say which.`, checkEndpoint);
  }

  private async requestJson<Schema extends z.ZodType>(path: string, schema: Schema) {
    const unexpected = (seen: string, cause?: unknown): MistletoeError =>
      failure(
        `${this.host} answered for ${this.name} with ${seen}.`,
        'Check HF_ENDPOINT: it must be the address of a Hugging Face hub or of a mirror.',
        cause,
      );
    const api = `/api/${this.id.kind ?? 'model'}s/${this.id.repository}/${path}`;
    const response = await this.request(api, { accept: 'application/json' });
    const parts: Uint8Array[] = [];
    let sizeBytes = 0;
    for await (const chunk of readBody(this.host, response)) {
      sizeBytes += chunk.byteLength;
      if (sizeBytes > fileLimits.hubAnswer) throw unexpected(`more than ${fileLimits.hubAnswer} bytes`);
      parts.push(chunk);
    }
    try {
      const value = z.readAs(schema, parseJsonText(Buffer.concat(parts).toString('utf8'), maxValues));
      return { value, link: response.headers.get('link') ?? '' };
    } catch (cause) {
      const isOther = !(cause instanceof SyntaxError) || cause instanceof TooManyValues;
      throw unexpected(isOther ? 'other JSON than the API has' : 'no JSON', cause);
    }
  }

  private async request(path: string, headers: Readonly<Record<string, string>>): Promise<Response> {
    const home = new URL(this.endpoint);
    let url = new URL(this.endpoint + path);
    for (let hop = 0; hop <= maxRedirects; hop++) {
      const mayKnowToken = this.token !== undefined && url.origin === home.origin;
      const response = await send(url, {
        'user-agent': 'mistletoe',
        ...headers,
        ...(mayKnowToken ? { authorization: `Bearer ${this.token}` } : {}),
      });
      if (response.ok) return response;
      await response.body?.cancel().catch(() => undefined);
      if (!redirections.includes(response.status)) throw this.describeRefusal(url, response);
      url = findNext(url, response);
    }
    throw failure(`${home.host} redirects more than ${maxRedirects} times.`, checkEndpoint);
  }

  /** The status alone is not enough: the hub also answers 401 for models that do not exist. */
  private describeRefusal(url: URL, { status, headers }: Response): MistletoeError {
    const { id, host, endpoint, token, name } = this;
    const code = headers.get('x-error-code');
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
      const hint = `Accept its licence on ${page}, and set HF_TOKEN to a token of your account${wrong}.`;
      return refuse(`${name} is gated on ${host} (${status}).`, hint);
    }
    if (status === 401 && token !== undefined && code !== 'RepoNotFound') {
      const hint = 'Set HF_TOKEN to a token that is valid, or unset it for a public model.';
      return refuse(`${host} refused the token for ${name} (401).`, hint);
    }
    if (status === 401 || status === 404) {
      const hint =
        'Check the spelling; for a private or gated model set HF_TOKEN to a token that may read it.';
      const fault = `There is no ${id.kind ?? 'model'} ${name} on ${host} that may be seen (${status}).`;
      return refuse(fault, hint);
    }
    return failure(`${host} answered ${status} for ${name}.`, checkEndpoint);
  }

  private requireInside(path: string): void {
    if (staysInside(path)) return;
    throw failure(
      `${this.host} lists the file ${quote(path)} for ${this.name}, which does not stay inside its folder.`,
      'Do not trust it: neither the repository nor the server, if HF_ENDPOINT names one.',
    );
  }
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

/** Only the cursor of the next page's URL is used: mirrors name the original hub in it. Empty on the last page. */
function findCursor(link: string): string {
  const [, address = ''] = /<([^>]+)>\s*;\s*rel="next"/.exec(link) ?? [];
  const base = 'http://localhost';
  if (!URL.canParse(address, base)) return '';
  return new URL(address, base).searchParams.get('cursor') ?? '';
}

async function* readBody(host: string, { body }: Response): AsyncGenerator<Uint8Array> {
  if (body === null) return;
  try {
    for await (const chunk of body as AsyncIterable<Uint8Array>) yield chunk;
  } catch (cause) {
    throw failure(`The connection to ${host} broke: ${describeFetchFailure(cause)}.`, resumeHint, cause);
  }
}
