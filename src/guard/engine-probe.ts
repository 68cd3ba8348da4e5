/**
 * Reading what a server shows of itself. Only addresses that answer without doing anything are asked: no generation, and
 * neither of those that look harmless and are not. SGLang's /health generates a token, TensorRT-LLM's /metrics and
 * /perf_metrics empty what they show, so that whoever collects them would miss it.
 */
import { MistletoeError } from '../core/errors.js';
import type { GetOptions, GetResult } from './bounded-get.js';
import { getBounded } from './bounded-get.js';
import type { MetricsText } from './prometheus-text.js';
import { parsePrometheusText } from './prometheus-text.js';
import type { EngineName } from './request-record.js';
import { parseEngineName } from './speculation/find-speculation.js';
import type { JsonObject } from './speculation/reading.js';
import { asList, asObject } from './speculation/reading.js';

export interface Probe extends GetResult {
  readonly path: string;
  /** Undefined where the answer is an error, or no JSON object. */
  readonly json: JsonObject | undefined;
}

/** What was found, by path. */
export type Probes = ReadonlyMap<string, Probe>;

const firstPaths: readonly string[] = [
  '/v1/models',
  '/version',
  '/server_info',
  '/props',
  '/info',
  '/prometheus/metrics',
];

export async function probeServer(base: URL, options: GetOptions): Promise<Probes> {
  const first = await probeAll(base, firstPaths, options);
  const engine = recogniseServer(first);
  const later = [
    ...(engine === 'tensorrt-llm' ? [] : ['/metrics']),
    ...(engine === 'llama-cpp' ? ['/slots'] : []),
    ...(isAnswered(first.get('/server_info')) ? [] : ['/get_server_info']),
  ];
  return new Map([...first, ...(await probeAll(base, later, options))]);
}

async function probeAll(
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

const isAnswered = (probe: Probe | undefined): boolean => probe?.status === 200;

function parseObject({ status, text, isCut }: GetResult): JsonObject | undefined {
  if (status !== 200 || isCut) return undefined;
  try {
    return asObject(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** The base under which an engine answers: with /v1 at its end or without. */
export function parseEngineUrl(given: string): URL {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  const isWeb = url?.protocol === 'http:' || url?.protocol === 'https:';
  if (url === undefined || !isWeb || url.search !== '' || url.hash !== '')
    throw new MistletoeError(
      'usage',
      `"${given}" is no address of a server; http:// or https:// was expected.`,
      {
        hint: 'Give the address under which the engine answers, as http://localhost:8000.',
      },
    );
  if (url.username !== '' || url.password !== '')
    throw new MistletoeError('usage', 'The address of the server has a name or a password in it.', {
      hint: 'Put the key into an environment variable and name it with --key-env.',
    });
  url.pathname = url.pathname.replace(/\/(?:v1\/?)?$/, '');
  return url;
}

/** Metrics in Prometheus' format, wherever the engine has them. */
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

const owners: Readonly<Record<string, EngineName>> = {
  vllm: 'vllm',
  sglang: 'sglang',
  tensorrt_llm: 'tensorrt-llm',
  llamacpp: 'llama-cpp',
  lmdeploy: 'lmdeploy',
  mistletoe: 'mistletoe',
};

const prefixes: readonly (readonly [RegExp, EngineName])[] = [
  [/^mistletoe_/, 'mistletoe'],
  [/^vllm:/, 'vllm'],
  [/^sglang:/, 'sglang'],
  [/^trtllm_/, 'tensorrt-llm'],
  [/^llamacpp:/, 'llama-cpp'],
  [/^lmdeploy:/, 'lmdeploy'],
  [/^tgi_/, 'tgi'],
];

/** By what only one engine says; the list of models first, because everything else may belong to a proxy before it. */
export function recogniseServer(probes: Probes): EngineName {
  for (const { engineHeader } of probes.values()) {
    const named = parseEngineName(engineHeader);
    if (named !== undefined) return named;
  }
  const owner = modelsOf(probes)
    .map(({ owned_by: name }) =>
      typeof name === 'string' && Object.hasOwn(owners, name) ? owners[name] : undefined,
    )
    .find((engine) => engine !== undefined);
  if (owner !== undefined) return owner;
  const info = serverInfoOf(probes) ?? {};
  if ('speculative_algorithm' in info || 'internal_states' in info) return 'sglang';
  const props = probes.get('/props')?.json;
  if (props !== undefined && 'default_generation_settings' in props) return 'llama-cpp';
  const router = probes.get('/info')?.json?.router;
  if (typeof router === 'string' && router.startsWith('text-generation-router')) return 'tgi';
  const names = metricsOf(probes)?.samples ?? [];
  return prefixes.find(([prefix]) => names.some(({ name }) => prefix.test(name)))?.[1] ?? 'unknown';
}

/** SGLang has had it under two names; vLLM has one for developers. */
export function serverInfoOf(probes: Probes): JsonObject | undefined {
  return probes.get('/server_info')?.json ?? probes.get('/get_server_info')?.json;
}
