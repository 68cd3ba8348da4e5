/**
 * Reading what a server shows of itself. Only addresses that have no side effects are read: SGLang's /health generates a
 * token, and TensorRT-LLM's /metrics and /perf_metrics remove what they show.
 */
import { MistletoeError } from '../../core/errors.js';
import type { GetOptions, GetResult } from './bounded-get.js';
import { getBounded } from './bounded-get.js';
import type { MetricsText } from './prometheus-text.js';
import { parsePrometheusText } from './prometheus-text.js';
import type { JsonObject } from './claim.js';
import { asList, asObject } from './claim.js';

export interface Probe extends GetResult {
  readonly path: string;
  /** Undefined where the response is an error or not a JSON object. */
  readonly json: JsonObject | undefined;
}

/** By path. */
export type Probes = ReadonlyMap<string, Probe>;

export async function probeAll(
  base: URL,
  paths: readonly string[],
  options: GetOptions,
): Promise<Map<string, Probe>> {
  const prefix = base.pathname.replace(/\/$/, '');
  const probes = paths.map(async (path): Promise<[string, Probe]> => {
    const result = await getBounded(new URL(prefix + path, base), options);
    return [path, { path, ...result, json: parseObject(result) }];
  });
  return new Map(await Promise.all(probes));
}

function parseObject({ status, text, isCut }: GetResult): JsonObject | undefined {
  if (status !== 200 || isCut) return undefined;
  try {
    return asObject(JSON.parse(text));
  } catch {
    return undefined;
  }
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

/** In Prometheus' format. */
export function metricsOf(probes: Probes): MetricsText | undefined {
  const found = ['/prometheus/metrics', '/metrics']
    .map((path) => probes.get(path))
    .find((probe) => probe?.status === 200 && /^[a-zA-Z_:#]/.test(probe.text));
  return found === undefined ? undefined : parsePrometheusText(found.text);
}

export function modelsOf(probes: Probes): readonly JsonObject[] {
  const models = asList(probes.get('/v1/models')?.json?.data) ?? [];
  return models
    .slice(0, 16)
    .map(asObject)
    .filter((model) => model !== undefined);
}

/** SGLang renamed it; vLLM has it in developer mode. */
export function serverInfoOf(probes: Probes): JsonObject | undefined {
  return probes.get('/server_info')?.json ?? probes.get('/get_server_info')?.json;
}
