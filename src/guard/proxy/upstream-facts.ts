/**
 * What the guard asks the engine itself: its name, its models and its draft counters. Clients can put any model name into
 * a request; names that the engine does not list share one baseline.
 */
import { asList } from '../engines/claim.js';
import type { EngineCounters } from '../engines/counters.js';
import { recognizeServer } from '../engines/engine-list.js';
import { type Fetch, modelsOf, probeAll } from '../engines/probe.js';
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

/** Compares the engine's own counters with the sum over observed requests: traffic around the guard, or unreadable. */
/** Draft tokens where all requests report them: engines count drafted steps only, some requests all passes. */
interface Totals {
  readonly draftTokens: number;
  readonly steps: number;
}

interface Snapshot {
  readonly engine: Totals;
  readonly observed: Totals;
  /** Engine and requests have counted draft tokens since the snapshot before. */
  readonly areTokensCounted: boolean;
}

/** Requests count when they end, the engine's counters while they run: a longer window evens that out. */
const maxSnapshots = 40;
const minSteps = 100;

export class Attribution {
  private observed = { draftTokens: 0, steps: 0 };
  private hasUncounted = false;
  private snapshots: Snapshot[] = [];

  add({ speculation, upstream }: Pick<Observation, 'speculation' | 'upstream'>): void {
    if (speculation === null || upstream === 'plain') return;
    this.observed.steps += speculation.steps;
    this.observed.draftTokens += speculation.proposed ?? 0;
    if (speculation.proposed === null) this.hasUncounted = true;
  }

  /** The unattributed share since the oldest snapshot; null where too little happened or the engine counts too little. */
  compare(counters: readonly EngineCounters[]): number | null {
    const sum = (name: 'draftTokens' | 'drafts'): number =>
      counters.reduce((total, each) => total + (each[name] ?? 0), 0);
    const now: Snapshot = {
      engine: { draftTokens: sum('draftTokens'), steps: sum('drafts') },
      observed: { ...this.observed },
      areTokensCounted: !this.hasUncounted && counters.every(({ draftTokens }) => draftTokens !== null),
    };
    this.hasUncounted = false;
    if (now.engine.steps < (this.snapshots.at(-1)?.engine.steps ?? 0)) this.snapshots = []; // it restarted
    this.snapshots.push(now);
    if (this.snapshots.length > maxSnapshots) this.snapshots.shift();
    const [first] = this.snapshots;
    const unit = this.snapshots.every(({ areTokensCounted }) => areTokensCounted) ? 'draftTokens' : 'steps';
    const counted = now.engine[unit] - first!.engine[unit];
    const observed = now.observed[unit] - first!.observed[unit];
    return counted < minSteps ? null : Math.max(0, 1 - observed / counted);
  }
}
