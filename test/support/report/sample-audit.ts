/**
 * A synthetic audit, complete enough to fill every part of a report: two drafters, nine prompts of which one was
 * skipped and one has no suffix, traces, a transfer matrix and universal suffixes. Seeded, so the same bytes every
 * time.
 */
import type { Random } from '../../../src/core/random.js';
import { createRandom } from '../../../src/core/random.js';
import type {
  ArmName,
  ArmResult,
  AuditResult,
  DrafterResult,
  PromptResult,
} from '../../../src/audit/result.js';
import { arms, resultSchema } from '../../../src/audit/result.js';
import type { AuditTimings, PhaseTimes } from '../../../src/audit/arms/phase-clock.js';
import { countArm } from '../../../src/audit/arms/drafter-units.js';
import { summariseDrafter } from '../../../src/audit/summary.js';
import { listRepeats, sampleArm } from './sample-arms.js';
import { sampleTrace } from './sample-decoding.js';
import { sampleTexts } from './sample-texts.js';
import { sampleTransfer, sampleUniversal } from './sample-beyond.js';

export interface SampleAudit {
  readonly result: AuditResult;
  readonly timings: AuditTimings;
}

export interface SampleOptions {
  readonly seed?: number;
  /** How much of the clean acceptance the attack takes away; 0 makes a robust drafter. */
  readonly strength?: number;
  /** Every prompt skipped. */
  readonly empty?: boolean;
  /** The attack is worth no more than the undirected search. */
  readonly blind?: boolean;
  /** Suffixes of the user in place of a search. */
  readonly given?: boolean;
  /** On which prompts the search found nothing; default one. */
  readonly withoutSuffix?: 'none' | 'one' | 'all';
  /** In bfloat16: on one prompt the second clean answer and the attacked one are different when they are measured. */
  readonly noisy?: boolean;
  /** Rows that were not measured. */
  readonly leaveOut?: readonly ArmName[];
  /** How many prompts are audited, at most. */
  readonly prompts?: number;
}

const drafterRates = { eagle3: 0.72, sps: 0.66 } as const;
const searched: readonly ArmName[] = ['attack', 'undirected', 'unprojected', 'preservation-only'];

export function createSampleAudit(options: SampleOptions = {}): SampleAudit {
  const { seed = 7, strength = 0.62, empty = false } = options;
  const random = createRandom(seed, 'sample-audit');
  const drafters = Object.entries(drafterRates).map(([drafter, rate], index) =>
    createDrafter({
      ...options,
      drafter,
      rate,
      strength: strength * (1 - 0.25 * index),
      random: random.fork(drafter),
    }),
  );
  const identity = { parameterCount: 12_460_000, sha256: '3f'.repeat(32) };
  const result: AuditResult = {
    schema: resultSchema,
    setup: {
      version: '0.2.0',
      node: 'v20.20.2',
      target: { name: 'reference/target', ...identity },
      drafters: [
        { id: 'eagle3', name: 'reference/eagle3', system: 'EAGLE-3', policy: 'chain:4', ...identity },
        { id: 'sps', name: 'reference/sps', system: 'speculative sampling', policy: 'chain:4', ...identity },
      ],
      preset: 'standard',
      seed,
      options: {
        epsilon: 0.1,
        'suffix-length': 20,
        window: 64,
        steps: 40,
        objective: 'margin',
        keep: 'similar',
        ...(options.noisy === true ? { dtype: 'bfloat16' } : {}),
      },
      command: `mistletoe audit --preset standard --epsilon 0.1 --steps 40 --seed ${seed}`,
      promptCount: sampleTexts.length,
    },
    drafters,
    transfer: empty ? null : sampleTransfer(drafters),
    universal: empty ? [] : [sampleUniversal],
  };
  return { result, timings: createTimings(result, random.fork('timings')) };
}

interface DrafterOptions extends SampleOptions {
  readonly drafter: string;
  readonly rate: number;
  readonly strength: number;
  readonly random: Random;
}

function createDrafter(options: DrafterOptions): DrafterResult {
  const { drafter, empty = false, prompts: most = sampleTexts.length, random } = options;
  const prompts = sampleTexts.map((text, index): PromptResult => {
    const { id: promptId, category, prompt } = text;
    if (empty || promptId === 'short-1' || index >= most) {
      const skipped = 'The clean answer has 1 token; the window of 64 needs at least 24.';
      return { promptId, category, prompt, skipped, arms: [], traces: [] };
    }
    return createPrompt(text, options, random.fork(promptId));
  });
  return { drafter, prompts, summary: summariseDrafter(prompts) };
}

function createPrompt(
  text: (typeof sampleTexts)[number],
  options: DrafterOptions,
  random: Random,
): PromptResult {
  const { rate, strength, blind = false, given = false, withoutSuffix = 'one', leaveOut = [] } = options;
  const { id: promptId, category, prompt } = text;
  const promptRate = rate + 0.2 * (random.next() - 0.5);
  const failed = withoutSuffix === 'all' || (withoutSuffix === 'one' && promptId === 'chat-2' && !blind);
  const present = arms.filter(
    (arm) => !leaveOut.includes(arm) && (given ? !searched.includes(arm) : arm !== 'given'),
  );
  const measured = present.flatMap((arm) =>
    listRepeats(arm).map((repeat) =>
      sampleArm({
        arm,
        repeat,
        text,
        rate: promptRate,
        strength,
        random: random.fork('arm'),
        withoutSuffix: failed && arm === 'attack',
        blind,
      }),
    ),
  );
  const clean = measured[0]!.sameAnswer.meanAcceptedLength;
  const traces = measured
    .filter(({ arm }) => searched.includes(arm))
    .map(({ arm, repeat, sameAnswer }) =>
      sampleTrace({
        arm,
        repeat,
        from: clean,
        to: sameAnswer.meanAcceptedLength,
        random: random.fork(`trace-${arm}`),
      }),
    );
  const counted = options.noisy === true && promptId === 'chat-1' ? addNoise(measured) : measured;
  return { promptId, category, prompt, skipped: null, arms: counted, traces };
}

function addNoise(measured: readonly ArmResult[]): ArmResult[] {
  const clean = measured.find(({ arm }) => arm === 'clean')!;
  return measured.map((result) => {
    if (result.arm !== 'clean-again' && result.arm !== 'attack') return result;
    const preservation = { ...result.preservation, kept: 'different', editSimilarity: 0.4 } as const;
    return countArm({ ...result, preservation }, clean, 'similar');
  });
}

const samplePhases = (arm: ArmName): PhaseTimes => ({
  ...(searched.includes(arm)
    ? {
        gradientMs: 500,
        scoringMs: 2000,
        exactLengthsMs: 200,
        decodingMs: 250,
        preparationMs: 20,
        totalMs: 3000,
      }
    : { gradientMs: 0, scoringMs: 0, exactLengthsMs: 40, decodingMs: 50, preparationMs: 5, totalMs: 100 }),
});

function createTimings(result: AuditResult, random: Random): AuditTimings {
  const rows = result.drafters.flatMap(({ drafter, prompts }) =>
    prompts.flatMap(({ promptId, arms: promptArms }) =>
      promptArms.map(({ arm, repeat, freeRunning }) => {
        const plain = 235 + 12 * random.next();
        const speedup = freeRunning.meanAcceptedLength * (0.68 + 0.03 * random.next());
        const tokensPerSecond = plain * speedup;
        const decodeMs = (1000 * freeRunning.emitted) / tokensPerSecond;
        const times = {
          prefillMs: 12 + 4 * random.next(),
          decodeMs,
          draftMs: 0.3 * decodeMs,
          verifyMs: 0.6 * decodeMs,
        };
        // Plain decoding is timed once for each arm, beside its first seed or draw.
        const compared =
          repeat === 1
            ? { plainTokensPerSecond: plain, speedup }
            : { plainTokensPerSecond: null, speedup: null };
        const phases = samplePhases(arm);
        return { drafter, promptId, arm, repeat, ...times, tokensPerSecond, ...compared, phases };
      }),
    ),
  );
  return { machine: 'linux x64, 2 cores, 8 GiB', arms: rows, totalMs: 184_300 };
}
