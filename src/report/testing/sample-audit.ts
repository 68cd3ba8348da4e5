/**
 * A synthetic audit, complete enough to fill every part of a report: two drafters, six prompts of which one was
 * skipped, traces, a transfer matrix and universal suffixes. Seeded, so the same bytes every time.
 */
import type { Random } from '../../core/random.js';
import { createRandom } from '../../core/random.js';
import type { AuditResult, AuditTimings, DrafterResult, PromptResult } from '../../audit/result.js';
import { arms, resultSchema } from '../../audit/result.js';
import { summariseDrafter } from '../../audit/summary.js';
import { sampleArm, sampleTrace } from './sample-arms.js';
import { sampleTexts } from './sample-texts.js';

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
}

const drafterRates = { eagle3: 0.66, sps: 0.58 } as const;

export function createSampleAudit({
  seed = 7,
  strength = 0.6,
  empty = false,
}: SampleOptions = {}): SampleAudit {
  const random = createRandom(seed, 'sample-audit');
  const drafters = Object.entries(drafterRates).map(([drafter, rate], index) => {
    const weakened = strength * (1 - 0.25 * index);
    return createDrafter({ drafter, rate, strength: weakened, empty, random: random.fork(drafter) });
  });
  const identity = { parameterCount: 12_460_000, sha256: '3f'.repeat(32) };
  const ids = drafters.map(({ drafter }) => drafter);
  const result: AuditResult = {
    schema: resultSchema,
    setup: {
      version: '0.1.0',
      node: 'v20.20.2',
      target: { name: 'reference/target', ...identity },
      drafters: [
        { id: 'eagle3', name: 'reference/eagle3', system: 'EAGLE-3', policy: 'chain:4', ...identity },
        { id: 'sps', name: 'reference/sps', system: 'speculative sampling', policy: 'chain:4', ...identity },
      ],
      preset: 'standard',
      seed,
      options: { epsilon: 0.1, 'suffix-length': 20, window: 20, steps: 40, objective: 'expected-length' },
      command: `mistletoe audit --preset standard --epsilon 0.1 --steps 40 --seed ${seed}`,
      promptCount: sampleTexts.length,
    },
    drafters,
    transfer: empty
      ? null
      : { drafters: ids, attacked: [[1.62, 2.21], [2.31, 1.68]], clean: [2.74, 2.33] }, // prettier-ignore
    universal: empty
      ? []
      : [
          {
            drafter: 'eagle3',
            suffix: ' }] ;;Sure <b> unto&&[[ print',
            trained: {
              n: 5,
              cleanAcceptedLength: 2.74,
              attackedAcceptedLength: 2.02,
              divergence: 0.082,
              pValue: 0.031,
            },
            heldOut: {
              n: 12,
              cleanAcceptedLength: 2.69,
              attackedAcceptedLength: 2.38,
              divergence: 0.121,
              pValue: 0.017,
            },
          },
        ],
  };
  return { result, timings: createTimings(result, random.fork('timings')) };
}

interface DrafterOptions {
  readonly drafter: string;
  readonly rate: number;
  readonly strength: number;
  readonly empty: boolean;
  readonly random: Random;
}

function createDrafter({ drafter, rate, strength, empty, random }: DrafterOptions): DrafterResult {
  const prompts = sampleTexts.map((text): PromptResult => {
    const { id: promptId, category, prompt } = text;
    if (empty || promptId === 'short-1') {
      const skipped = 'The clean answer has 1 token; the window of 20 needs at least 20.';
      return { promptId, category, prompt, skipped, arms: [], traces: [], repeats: [] };
    }
    const own = random.fork(promptId);
    const promptRate = rate + 0.2 * (own.next() - 0.5);
    return {
      promptId,
      category,
      prompt,
      skipped: null,
      arms: arms.map((arm) => sampleArm({ arm, text, rate: promptRate, strength, random: own.fork('arm') })),
      repeats: [1.52, 1.47],
      traces: (['attack', 'unprojected', 'preservation-only'] as const).map((arm) =>
        sampleTrace(arm, strength, own.fork(`trace-${arm}`)),
      ),
    };
  });
  return { drafter, prompts, summary: summariseDrafter(prompts, 1) };
}

function createTimings(result: AuditResult, random: Random): AuditTimings {
  const rows = result.drafters.flatMap(({ drafter, prompts }) =>
    prompts.flatMap(({ promptId, arms: promptArms }) =>
      promptArms.map(({ arm, acceptance }) => {
        const plainTokensPerSecond = 235 + 12 * random.next();
        const speedup = acceptance.meanAcceptedLength * (0.68 + 0.03 * random.next());
        const tokensPerSecond = plainTokensPerSecond * speedup;
        const decodeMs = (1000 * acceptance.emitted) / tokensPerSecond;
        const times = {
          prefillMs: 12 + 4 * random.next(),
          decodeMs,
          draftMs: 0.3 * decodeMs,
          verifyMs: 0.6 * decodeMs,
        };
        return { drafter, promptId, arm, ...times, tokensPerSecond, plainTokensPerSecond, speedup };
      }),
    ),
  );
  return { machine: 'linux x64, 2 cores, 8 GiB', arms: rows, searchMs: 184_300 };
}
