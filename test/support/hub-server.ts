/** A Hugging Face hub of a test's own on loopback, and beside it the host that large files are redirected to. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

export type HubContents = Readonly<Record<string, string | Uint8Array>>;

export interface SeenRequest {
  readonly host: 'hub' | 'storage';
  readonly path: string;
  readonly range: string | undefined;
  readonly authorization: string | undefined;
}

/** Answers in place of the hub; false leaves the request to it. */
export type Disturbance = (
  request: SeenRequest,
  response: ServerResponse,
  contents: Uint8Array | undefined,
) => boolean;

export interface FakeHub {
  readonly endpoint: string;
  readonly requests: SeenRequest[];
  /** Replaces what there was; returns the commit, which depends on the contents alone. */
  add(repository: string, contents: HubContents, options?: { readonly isGated?: boolean }): string;
  /** Until the next call; undefined ends it. */
  disturb(disturbance: Disturbance | undefined): void;
  close(): Promise<void>;
}

interface Repository {
  readonly commit: string;
  readonly contents: Map<string, Uint8Array>;
  readonly isGated: boolean;
}

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
export const gitHash = (bytes: Uint8Array): string =>
  createHash('sha1').update(`blob ${bytes.byteLength}\0`).update(bytes).digest('hex');
/** As .gitattributes of new repositories has it. */
export const isLarge = (path: string): boolean =>
  /\.(safetensors|bin|pt|gguf|onnx|model|parquet)$/.test(path);
export const hashOf = (path: string, bytes: Uint8Array): string => (isLarge(path) ? sha256 : gitHash)(bytes);

/** The files of a folder, for `add`. */
export function readContents(folder: string): HubContents {
  return Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));
}

const pageSize = 5;
const token = 'hf_right';

export async function startHub(): Promise<FakeHub> {
  const repositories = new Map<string, Repository>();
  const requests: SeenRequest[] = [];
  let disturbance: Disturbance | undefined;

  const handle = (host: SeenRequest['host']) => (request: IncomingMessage, response: ServerResponse) => {
    const path = request.url ?? '';
    const { range, authorization } = request.headers;
    const seen: SeenRequest = { host, path, range, authorization };
    requests.push(seen);
    const file = findFile(repositories, path.replace(/^\/stored/, '').split('?')[0]!);
    if (disturbance?.(seen, response, file?.bytes) === true) return;
    if (host === 'storage') sendFile(seen, response, file?.bytes ?? new Uint8Array());
    else answer(seen, response);
  };
  const hub = createServer(handle('hub'));
  const storage = createServer(handle('storage'));
  const endpoint = await listen(hub);
  const storageAddress = await listen(storage);

  const answer = (seen: SeenRequest, response: ServerResponse): void => {
    const url = new URL(seen.path, endpoint);
    const [, org, name, kind, revision] =
      /^(?:\/api\/models|\/api\/datasets|\/datasets)?\/([^/]+)\/([^/]+)\/(revision|tree|resolve)\/([^/]+)/.exec(
        url.pathname,
      ) ?? [];
    const repository = repositories.get(`${org}/${name}`);
    if (repository === undefined) {
      refuse(response, 401, 'RepoNotFound'); // as the hub does
    } else if (!['main', 'refs/pr/1', repository.commit].includes(decodeURIComponent(revision ?? ''))) {
      refuse(response, 404, 'RevisionNotFound');
    } else if (kind === 'revision') {
      sendJson(response, { id: `${org}/${name}`, sha: repository.commit, siblings: [] });
    } else if (kind === 'tree') {
      sendTree(response, url, repository);
    } else if (repository.isGated && seen.authorization !== `Bearer ${token}`) {
      refuse(response, seen.authorization === undefined ? 401 : 403, 'GatedRepo');
    } else {
      const file = findFile(repositories, url.pathname);
      if (file === undefined) refuse(response, 404, 'EntryNotFound');
      else if (isLarge(file.path)) {
        const location = `${storageAddress}/stored${url.pathname}?signature=secret`;
        response.writeHead(302, { location, 'x-linked-etag': `"${sha256(file.bytes)}"` }).end();
      } else sendFile(seen, response, file.bytes);
    }
  };

  return {
    endpoint,
    requests,
    add(repository, contents, { isGated = false } = {}) {
      const bytes = Object.entries(contents).map(([path, value]) => [path, Buffer.from(value)] as const);
      const hashes = bytes.map(([path, value]) => [path, gitHash(value)]);
      const commit = createHash('sha1').update(JSON.stringify(hashes)).digest('hex');
      repositories.set(repository, { commit, contents: new Map(bytes), isGated });
      return commit;
    },
    disturb(given) {
      disturbance = given;
    },
    async close() {
      for (const server of [hub, storage]) {
        server.closeAllConnections();
        server.close();
        await once(server, 'close');
      }
    },
  };
}

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function findFile(
  repositories: ReadonlyMap<string, Repository>,
  path: string,
): { readonly path: string; readonly bytes: Uint8Array } | undefined {
  const [, repository, file] = /^(?:\/datasets)?\/([^/]+\/[^/]+)\/resolve\/[^/]+\/(.+)$/.exec(path) ?? [];
  const name = decodeURIComponent(file ?? '');
  const bytes = repositories.get(repository ?? '')?.contents.get(name);
  return bytes === undefined ? undefined : { path: name, bytes };
}

function sendTree(response: ServerResponse, url: URL, { contents }: Repository): void {
  const entries = [...contents].map(([path, bytes]) => ({
    type: 'file',
    path,
    size: bytes.byteLength,
    ...(isLarge(path)
      ? {
          oid: gitHash(Buffer.from('pointer')),
          lfs: { oid: sha256(bytes), size: bytes.byteLength, pointerSize: 130 },
        }
      : { oid: gitHash(bytes) }),
  }));
  const all = [{ type: 'directory', path: 'onnx', size: 0, oid: gitHash(new Uint8Array()) }, ...entries];
  const start = Number(url.searchParams.get('cursor') ?? 0);
  const next = start + pageSize;
  // The address that a mirror passes on is the hub's own.
  if (next < all.length)
    response.setHeader(
      'link',
      `<https://hub.example${url.pathname}?recursive=true&cursor=${next}>; rel="next"`,
    );
  sendJson(response, all.slice(start, next));
}

function sendJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

export function sendFile({ range }: SeenRequest, response: ServerResponse, bytes: Uint8Array): void {
  const [, first] = /^bytes=(\d+)-$/.exec(range ?? '') ?? [];
  if (first === undefined) {
    response.writeHead(200, { 'content-length': bytes.byteLength }).end(bytes);
    return;
  }
  const part = bytes.subarray(Number(first));
  response
    .writeHead(206, {
      'content-length': part.byteLength,
      'content-range': `bytes ${first}-${bytes.byteLength - 1}/${bytes.byteLength}`,
    })
    .end(part);
}

export function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { 'x-error-code': code, 'content-type': 'application/json' });
  response.end(JSON.stringify({ error: code }));
}
