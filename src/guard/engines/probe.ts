/**
 * Reading what a server shows of itself, with limits on time and size. Only addresses without side effects are read:
 * SGLang's /health generates a token, and TensorRT-LLM's /metrics and /perf_metrics remove what they show.
 */
import { describeFetchFailure, MistletoeError } from '../../core/errors.js';
import { type JsonObject, asList, asObject, parseJson } from './claim.js';
import { type Sample, parsePrometheusText } from './counters.js';

export type Fetch = (url: string, options: RequestInit) => Promise<Response>;

export interface GetOptions {
  readonly fetch?: Fetch | undefined;
  readonly key?: string | undefined;
  readonly timeoutMs?: number;
  readonly maxBytes?: number;
  readonly signal?: AbortSignal | undefined;
}

export interface GetResult {
  /** Null where there was no response, or a redirect elsewhere; see `failure`. */
  readonly status: number | null;
  readonly engineHeader: string | null;
  readonly text: string;
  readonly failure: string | null;
  /** The response is longer than `text`. */
  readonly isCut: boolean;
}

const defaultBytes = 4 << 20;
const maxRedirects = 3;

/** Redirects are followed within the origin only, so the key stays there. */
export async function getBounded(address: URL, options: GetOptions = {}): Promise<GetResult> {
  const { fetch: send = fetch, key, timeoutMs = 5000, maxBytes = defaultBytes } = options;
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = options.signal === undefined ? timeout : AbortSignal.any([timeout, options.signal]);
  const authorization: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const headers = { 'user-agent': 'mistletoe', ...authorization };
  let url = address;
  try {
    for (let hop = 0; hop <= maxRedirects; hop++) {
      const response = await send(url.href, { headers, redirect: 'manual', signal });
      const location =
        response.status >= 300 && response.status < 400 ? response.headers.get('location') : null;
      if (location === null) return await readResponse(response, maxBytes);
      await response.body?.cancel();
      if (!URL.canParse(location, url.href) || new URL(location, url.href).origin !== address.origin)
        return fail('it redirects to another host');
      url = new URL(location, url.href);
    }
    return fail(`it redirects more than ${maxRedirects} times`);
  } catch (cause) {
    return fail(timeout.aborted ? `no response within ${timeoutMs / 1000} s` : describeFetchFailure(cause));
  }
}

const fail = (failure: string): GetResult => ({
  ...{ status: null, engineHeader: null, text: '', isCut: false, failure },
});

async function readResponse({ status, headers, body }: Response, maxBytes: number): Promise<GetResult> {
  const decoder = new TextDecoder();
  let text = '';
  let size = 0;
  for await (const bytes of (body ?? []) as AsyncIterable<Uint8Array>) {
    text += decoder.decode(bytes.subarray(0, Math.max(0, maxBytes - size)), { stream: true });
    size += bytes.length;
    if (size > maxBytes) break; // which cancels the rest
  }
  const engineHeader = headers.get('x-mistletoe-engine');
  return { status, engineHeader, text, failure: null, isCut: size > maxBytes };
}

export interface Probe extends GetResult {
  readonly path: string;
  /** Undefined where the response is an error or not a JSON object. */
  readonly json: JsonObject | undefined;
}

export type Probes = ReadonlyMap<string, Probe>;

export async function probeAll(base: URL, paths: readonly string[], options: GetOptions): Promise<Probes> {
  const prefix = base.pathname.replace(/\/$/, '');
  const probes = paths.map(async (path): Promise<[string, Probe]> => {
    const result = await getBounded(new URL(prefix + path, base), options);
    const isReadable = result.status === 200 && !result.isCut;
    return [path, { path, ...result, json: isReadable ? asObject(parseJson(result.text)) : undefined }];
  });
  return new Map(await Promise.all(probes));
}

/** The engine's base address; a trailing /v1 is dropped. */
export function parseEngineUrl(given: string): URL {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  const isWeb = url?.protocol === 'http:' || url?.protocol === 'https:';
  if (url === undefined || !isWeb || url.search !== '' || url.hash !== '')
    throw new MistletoeError(
      'usage',
      `"${given}" is not the address of a server; expected http:// or https://.`,
      { hint: 'Pass the address of the engine, such as http://localhost:8000.' },
    );
  if (url.username !== '' || url.password !== '')
    throw new MistletoeError('usage', 'The address of the server contains a user name or a password.', {
      hint: 'Put the key into an environment variable and name it with --key-env.',
    });
  url.pathname = url.pathname.replace(/\/(?:v1\/?)?$/, '');
  return url;
}

export function metricsOf(probes: Probes): readonly Sample[] | undefined {
  const found = ['/prometheus/metrics', '/metrics']
    .map((path) => probes.get(path))
    .find((probe) => probe?.status === 200 && /^[a-zA-Z_:#]/.test(probe.text));
  return found && parsePrometheusText(found.text);
}

export function modelsOf(probes: Probes): readonly JsonObject[] {
  const models = asList(probes.get('/v1/models')?.json?.data) ?? [];
  return models.slice(0, 16).flatMap((model): JsonObject[] => [asObject(model) ?? {}]);
}

/** SGLang renamed it; vLLM has it in developer mode. */
export function serverInfoOf(probes: Probes): JsonObject | undefined {
  return probes.get('/server_info')?.json ?? probes.get('/get_server_info')?.json;
}
