/**
 * What is asked of the hub: which commit a revision is, which files it has, and their bytes. Three addresses of its
 * documented API; the library @huggingface/hub has them too, with 5 MB of uploads, accounts and a Wasm module besides,
 * and neither resumes a download nor compares it with its hash.
 */
import { z } from 'zod';
import { MistletoeError } from '../core/errors.js';
import { parseJsonText } from '../core/json-text.js';
import { fileLimits } from '../core/limits.js';
import type { HubId } from './hub-id.js';
import { formatHubId } from './hub-id.js';
import type { HubAccess } from './hub-requests.js';
import { describeReason, keptRemains, requestHub } from './hub-requests.js';
import { quote } from './stored-tensor.js';

export interface HubFile {
  /** From the root of the repository, with slashes. */
  readonly path: string;
  readonly sizeBytes: number;
  /** Of large files (LFS, Xet) sha256; of small ones git's sha1 of a blob. It is the name of the file in the cache. */
  readonly hash: string;
}

export interface HubBody {
  /** Where the bytes begin: 0 where the server does not know ranges. */
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
      const path = `/api/models/${id.repository}/revision/${encodeURIComponent(id.revision)}`;
      const { value } = await requestJson(access, id, path, commitSchema);
      return value.sha;
    },
    async listFiles(id, commit) {
      const files: HubFile[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < mostPages; page++) {
        const query = `recursive=true${cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
        const path = `/api/models/${id.repository}/tree/${commit}?${query}`;
        const { value, link } = await requestJson(access, id, path, treeSchema);
        for (const entry of value) if (entry.type === 'file') files.push(toFile(id, host, entry));
        cursor = findCursor(link);
        if (cursor === undefined) return files;
      }
      throw new MistletoeError(
        'network',
        `${host} lists more than ${mostPages} pages of files for ${id.repository}.`,
        {
          hint: 'A repository of one model was expected: check the name.',
        },
      );
    },
    async openFile(id, commit, path, firstByte) {
      const address = `/${id.repository}/resolve/${commit}/${path.split('/').map(encodeURIComponent).join('/')}`;
      const response = await requestHub(access, id, address, {
        'accept-encoding': 'identity', // else the bytes of a range, and their number, would be those of the packed file
        ...(firstByte === 0 ? {} : { range: `bytes=${firstByte}-` }),
      });
      return {
        firstByte: response.status === 206 ? readRange(host, response) : 0,
        chunks: readBody(host, response),
      };
    },
  };
}

const mostPages = 100;
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

/** The name is data from a stranger: it may not lead out of the folder, on any platform. */
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

/** Of the next page's address the cursor alone is used: mirrors name the hub that they mirror in it. */
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
      throw strangeAnswer(host, id, `more than ${fileLimits.hubAnswer} bytes`);
    parts.push(chunk);
  }
  try {
    const value = schema.parse(parseJsonText(Buffer.concat(parts).toString('utf8')));
    return { value, link: response.headers.get('link') };
  } catch (cause) {
    throw strangeAnswer(
      host,
      id,
      cause instanceof SyntaxError ? 'no JSON' : 'other JSON than the API has',
      cause,
    );
  }
}

function strangeAnswer(host: string, id: HubId, seen: string, cause?: unknown): MistletoeError {
  return new MistletoeError('network', `${host} answered for ${formatHubId(id)} with ${seen}.`, {
    hint: 'Check HF_ENDPOINT: it must be the address of a Hugging Face hub or of a mirror.',
    ...(cause === undefined ? {} : { cause }),
  });
}

async function* readBody(host: string, { body }: Response): AsyncGenerator<Uint8Array> {
  if (body === null) return;
  try {
    for await (const chunk of body as AsyncIterable<Uint8Array>) yield chunk;
  } catch (cause) {
    throw new MistletoeError('network', `The connection to ${host} broke: ${describeReason(cause)}.`, {
      hint: keptRemains,
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
