/**
 * A benchmark as plain data, measured in this process or by one worker for each GPU. A unit is the prompts that are
 * answered at the same time, by plain decoding and by all systems in turn, so speeds are compared on one device.
 * Several workers on one device would slow each other down, so there is never more than one.
 */
import { fileURLToPath } from 'node:url';
import { createPolicy, defaultDraftPolicy } from '../decode/generate.js';
import { openTarget } from '../decode/target.js';
import type { ReadingOptions } from '../draft/draft-system.js';
import type { Drafter } from '../draft/drafter.js';
import { loadDrafter } from '../draft/systems.js';
import { type DraftPolicy, formatDraftPolicy } from '../draft/tree/policy.js';
import type {
  BenchmarkEvents,
  BenchmarkOptions,
  BenchmarkSystem,
  BenchmarkUnit,
  UnitProgress,
} from '../measure/benchmark.js';
import { BenchmarkRunner } from '../measure/benchmark.js';
import { type BenchmarkResult, type MeasuredUnit, collectBenchmark } from '../measure/benchmark-summary.js';
import type { Runtime } from '../runtime/program.js';
import type { RecordedDevice } from '../runtime/device-choice.js';
import type { TemplateOptions } from '../text/template/chat-template.js';
import { UnitPool } from './unit-pool.js';
import { type UnitFailed, driveUnits } from './unit.js';
import type { WorkerSeat } from './run-device.js';

export interface BenchPlan
  extends
    ReadingOptions,
    TemplateOptions,
    Pick<BenchmarkOptions, 'promptSets' | 'limit' | 'maxNewTokens' | 'sampling' | 'seed' | 'warmup'> {
  /** A folder. */
  readonly target: string;
  readonly drafters: readonly BenchDrafter[];
  readonly concurrency: number;
  readonly cacheFolder?: string | undefined;
  readonly verifyCache?: boolean | undefined;
}

interface BenchDrafter {
  readonly name: string;
  /** A folder, or a system without weights. */
  readonly source: string;
  /** Each is measured as a system. Empty: the default. */
  readonly policies: readonly DraftPolicy[];
}

export interface BenchOptions {
  readonly onNotice: (message: string) => void;
  readonly signal?: AbortSignal | undefined;
}

export async function openBench(
  { drafters, target: folder, ...plan }: BenchPlan,
  runtime: Runtime,
  { onNotice, signal }: BenchOptions,
): Promise<BenchmarkRunner> {
  const { cacheFolder, verifyCache, taps, chatTemplate, date, sampling } = plan;
  const loading = { onNotice, cacheFolder, verifyCache, taps };
  const target = await openTarget(folder, { runtime, chatTemplate, date, ...loading });
  const { model, tokenizer } = target;
  const systems: BenchmarkSystem[] = [];
  for (const { name, source, policies } of drafters) {
    const drafter = await loadDrafter(source, { target: model, tokenizer, ...loading });
    const chosen = policies.length > 0 ? policies : [defaultDraftPolicy(drafter, sampling, runtime)];
    systems.push(...chosen.map((policy) => createSystem(name, drafter, policy)));
  }
  const { promptSets, limit, maxNewTokens, seed, warmup, concurrency } = plan;
  const sizes = { limit, maxNewTokens, sampling, seed, warmup, concurrency, signal };
  return BenchmarkRunner.open({ target, systems, promptSets, ...sizes }, { onNotice });
}

/** Refuses a policy that does not fit the drafter before anything is measured. */
function createSystem(name: string, drafter: Drafter, policy: DraftPolicy): BenchmarkSystem {
  createPolicy(policy, drafter);
  const create = (): ReturnType<typeof createPolicy> => createPolicy(policy, drafter);
  return { name, policy: formatDraftPolicy(policy), drafter, createPolicy: create };
}

export interface BenchSetup {
  readonly plan: BenchPlan;
  readonly device: RecordedDevice;
}

export interface BenchAnswer {
  readonly units: readonly BenchmarkUnit[];
  readonly total: number;
}

/** Compiled beside this module. */
const program = fileURLToPath(new URL('./bench-process.js', import.meta.url));

/** A unit that failed is left out and passed to `onFailure`. */
export async function runBenchUnits(
  plan: BenchPlan,
  seats: readonly WorkerSeat[],
  events: BenchmarkEvents & { readonly onFailure: (unit: string, failure: UnitFailed) => void },
  signal?: AbortSignal,
): Promise<BenchmarkResult> {
  const pool = new UnitPool<BenchmarkUnit>({
    program,
    workers: seats.map(({ name, gpu, device }) => {
      const setup: BenchSetup = { plan, device };
      return { name, gpu, setup };
    }),
    onNotice: events.onNotice,
  });
  try {
    const { units, total } = (await pool.ask(undefined)) as BenchAnswer;
    const measured = new Map<string, MeasuredUnit>();
    const keyOf = ({ set, start }: BenchmarkUnit): string => `${plan.promptSets[set]!.name}/${start + 1}`;
    let [next, done] = [0, 0];
    events.onStart?.(total);
    const running = driveUnits<BenchmarkUnit>({
      executor: pool,
      signal,
      schedule: {
        next() {
          const input = units[next++];
          return input === undefined ? undefined : { key: keyOf(input), input };
        },
      },
      hooksOf: ({ key }) => ({
        onPart: ({ data }) => {
          const answered = data as unknown as MeasuredUnit;
          measured.set(key, answered);
          for (const record of answered.records) events.onRecord?.(record);
        },
        onProgress: (sent) => {
          const { answers, set, system } = sent as UnitProgress;
          done += answers;
          events.onGeneration?.({ done, set, system });
        },
      }),
      onFailure: ({ key }, failure) => {
        events.onFailure(key, failure);
      },
    });
    await running.catch((cause: unknown) => {
      if (signal?.aborted !== true) throw cause;
    });
    return collectBenchmark(
      units.flatMap((unit) => measured.get(keyOf(unit)) ?? []),
      { concurrency: plan.concurrency, signal },
    );
  } finally {
    await pool.close();
  }
}
