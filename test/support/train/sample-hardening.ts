/** Results of audits and of hardening runs, made by hand: lengths prompt by prompt, and what follows from them. */
import type { AuditResult, DrafterResult, PromptResult } from '../../../src/audit/result.js';
import { summariseDrafter } from '../../../src/audit/summary.js';
import { createSampleAudit } from '../report/sample-audit.js';
import type { HardeningAudit } from '../../../src/train/harden/hardening-settings.js';
import {
  compareAudit,
  drafterRoles,
  hardeningResultVersion,
} from '../../../src/train/harden/hardening-result.js';
import type { HardeningResult, RoundRecord } from '../../../src/train/harden/hardening-result.js';
import { hardeningDefaults } from '../../../src/train/harden/hardening-settings.js';
import { presets } from '../../../src/audit/settings.js';
import { defaultSettings } from '../../../src/train/settings.js';

/** Steps and accepted tokens of one arm. */
export type Counts = readonly [steps: number, accepted: number];

export interface SamplePrompt {
  readonly id: string;
  readonly clean: Counts;
  /** [seed] */
  readonly attacked: readonly Counts[];
  readonly skipped?: string;
}

const sample = createSampleAudit({ withoutSuffix: 'one' }).result;
const samplePrompt = sample.drafters[0]!.prompts.find(({ skipped }) => skipped === null)!;

function createPrompt({ id, clean, attacked, skipped }: SamplePrompt): PromptResult {
  const armOf = (arm: 'clean' | 'attack', [steps, accepted]: Counts, index: number) => {
    const base = samplePrompt.arms.find((entry) => entry.arm === arm)!;
    const sameAnswer = { ...base.sameAnswer, steps, accepted, meanAcceptedLength: 1 + accepted / steps };
    return { ...base, repeat: index + 1, sameAnswer };
  };
  return {
    ...{ ...samplePrompt, promptId: id, skipped: skipped ?? null, traces: [] },
    arms:
      skipped === undefined
        ? [armOf('clean', clean, 0), ...attacked.map((counts, index) => armOf('attack', counts, index))]
        : [],
  };
}

export function createDrafterResult(drafter: string, given: readonly SamplePrompt[]): DrafterResult {
  const prompts = given.map(createPrompt);
  return { drafter, prompts, summary: summariseDrafter(prompts) };
}

/** Drafters in the order of their roles: before, hardened, random, clean. */
export function createAuditResult(drafters: readonly (readonly SamplePrompt[])[]): AuditResult {
  const names = ['eagle3', 'eagle3-hardened', 'eagle3-random', 'eagle3-clean'];
  return {
    ...{ ...sample, transfer: null, universal: [] },
    setup: { ...sample.setup, options: { ...sample.setup.options, ...presets.standard } },
    drafters: drafters.map((prompts, index) => createDrafterResult(names[index]!, prompts)),
  };
}

/** Prompts that accept `clean` tokens a step, and lose a share of that under attack which differs a little each. */
export function createPrompts(count: number, clean: number, drop: number): readonly SamplePrompt[] {
  return Array.from({ length: count }, (_, index) => {
    const own = drop * (1 + 0.4 * ((index % 5) - 2) * 0.5) + 0.002 * index;
    const attacked = Math.max(1, clean * (1 - own));
    return {
      id: `p${index + 1}`,
      clean: [1000, 1000 * (clean - 1)],
      attacked: [[1000, 1000 * (attacked - 1)]],
    };
  });
}

const round: RoundRecord = {
  ...{ prompts: 32, found: 30, suffixes: 118, searchSteps: 24, attackedLength: 1.31, updates: 200 },
  ...{ cleanBefore: 2.41, cleanAfter: 2.39 },
};

export function createHardeningResult(
  audits: readonly (readonly [HardeningAudit, AuditResult])[],
): HardeningResult {
  const identity = { parameterCount: 4_100_000, sha256: 'ab'.repeat(32) };
  const counts = { examples: 980, tokens: 180_000, learntTokens: 120_000, cut: 3, withoutLearnt: 0 };
  const training = defaultSettings({ system: 'eagle3', maximumDepth: Infinity });
  return {
    ...{ schema: hardeningResultVersion, version: '0.2.0', system: 'eagle3' },
    target: { name: 'target', parameterCount: 12_460_000, sha256: 'cd'.repeat(32) },
    from: { name: 'eagle3', ...identity },
    request: {
      ...{ training, hardening: hardeningDefaults, baselines: ['random'] },
      data: { file: '/data/questions.jsonl', sha256: 'ef'.repeat(32) },
    },
    audit: {
      ...{ prompts: 24, preset: 'standard', settings: presets.standard, seed: 7919, strongerPrompts: 4 },
      names: audits.map(([name]) => name),
    },
    texts: { conversations: 1000, training: counts, heldOut: { ...counts, examples: 20 } },
    rounds: {
      hardened: [
        round,
        { ...round, searchSteps: 36, attackedLength: 1.62, cleanBefore: 2.39, cleanAfter: 2.38 },
      ],
      random: [{ ...round, searchSteps: 0, attackedLength: null }],
      clean: [],
      paraphrase: [],
    },
    audits: audits.map(([name, result]) => compareAudit(name, result, drafterRoles)),
    times: { searchMs: 940_000, trainingMs: 610_000, auditMs: 2_400_000 },
    device: 'CPU',
    machine: {
      ...{
        processor: 'a processor',
        cores: 2,
        architecture: 'x64',
        memoryBytes: 8e9,
        nodeVersion: 'v20.20.2',
      },
      ...{ platform: 'linux', device: { kind: 'cpu', dtype: 'float32' } },
    } as unknown as HardeningResult['machine'],
  };
}
