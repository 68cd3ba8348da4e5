/**
 * What the guard asks the engine itself: its name, its models and its draft counters. Clients can put any model name into
 * a request; names that the engine does not list share one baseline.
 */
import { asList } from '../engines/claim.js';
import type { EngineCounters } from '../engines/counters.js';
import { recognizeServer } from '../engines/engine-list.js';
import type { Fetch } from '../engines/probe.js';
import { modelsOf, probeAll } from '../engines/probe.js';
import { scrape } from '../engines/scrape.js';
import type { EngineName, Observation } from '../observation.js';

export interface UpstreamFactsOptions {
  readonly url: string;
  readonly key?: string | undefined;
  /** As configured; wins over what the engine shows. */
  readonly engine?: EngineName | undefined;
  readonly model?: string | undefined;
  readonly metricsUrl?: string | undefined;
  readonly fetch?: Fetch | undefined;
}

const unlistedModel = 'unlisted';
/** Names kept apart where the engine's list cannot be read. */
const maxUnverified = 64;
const timeoutMs = 2000;

export class UpstreamFacts {
  private seenEngine: EngineName | undefined;
  private models: ReadonlySet<string> | undefined;
  private readonly unverified = new Set<string>();

  constructor(private readonly options: UpstreamFactsOptions) {}

  get engine(): EngineName | undefined {
    return this.options.engine ?? this.seenEngine;
  }

  /** Reads the engine's list of models; what was known stays where that fails. */
  async refresh(): Promise<void> {
    const { url, key, fetch } = this.options;
    const probes = await probeAll(new URL(url), ['/v1/models'], { key, timeoutMs, fetch });
    const engine = recognizeServer(probes);
    if (engine !== 'unknown') this.seenEngine = engine;
    const names = modelsOf(probes).flatMap(({ id, aliases }) => [id, ...(asList(aliases) ?? [])]);
    const models = names.filter((name) => typeof name === 'string');
    if (models.length > 0) this.models = new Set(models);
  }

  /** The name under which requests for this model are judged. */
  modelKey(name: string | null): string {
    const { options, models, unverified } = this;
    if (options.model !== undefined) return options.model;
    if (models !== undefined) {
      if (name === null && models.size === 1) return [...models][0]!;
      return name !== null && models.has(name) ? name : unlistedModel;
    }
    if (name === null) return unlistedModel;
    if (unverified.size < maxUnverified) unverified.add(name);
    return unverified.has(name) ? name : unlistedModel;
  }

  /** Learns the engine from a response where it cannot be asked. */
  learn({ engine, upstream }: Pick<Observation, 'engine' | 'upstream'>): void {
    if (engine !== 'unknown' && upstream === 'speculative') this.seenEngine ??= engine;
  }

  /** Undefined where the engine serves no draft counters. */
  async readCounters(): Promise<readonly EngineCounters[] | undefined> {
    const { url, key, metricsUrl, fetch } = this.options;
    // Reading TensorRT-LLM's /metrics removes what it shows.
    const path = this.engine === 'tensorrt-llm' ? '/prometheus/metrics' : '/metrics';
    const address = new URL(metricsUrl ?? url.replace(/\/+$/, '') + path);
    const counters = await scrape(address, { key, timeoutMs, fetch });
    return typeof counters === 'string' ? undefined : counters;
  }
}
