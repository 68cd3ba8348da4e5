/** The parts of a hardening study: what is asked for, what comes back, and where it lies. */
import { basename, join } from 'node:path';
import type { PromptResult } from '../../src/audit/result.js';
import type { StepCounts } from '../../src/audit/search/same-answer.js';
import type { Prompt } from '../../src/text/prompts/prompt-set.js';
import type { RoundRecord } from '../../src/train/harden/hardening-result.js';
import type { HardeningAudit, HardeningSettings } from '../../src/train/harden/hardening-settings.js';
import type { TrainSettings } from '../../src/train/settings.js';
import type { SuffixedPrompt } from '../../src/train/harden/suffixed-texts.js';

/** What all parts of a study have in common. */
export interface Study {
  readonly folder: string;
  readonly device: string;
  readonly threads: number;
  /** Questions to train on, and the target's answers to them where they are known. */
  readonly data: string;
  readonly answers?: string | undefined;
  readonly preset: string;
  readonly audit?: Readonly<Record<string, unknown>> | undefined;
}

export interface Variant {
  readonly name: string;
  readonly hardening: Partial<HardeningSettings>;
  readonly training: Partial<TrainSettings>;
}

/** One drafter, hardened in one way or, as the baseline, trained on random suffixes. */
export interface Chain {
  readonly drafter: string;
  readonly variant: Variant;
  readonly role: 'hardened' | 'random';
}

/** A drafter to look at: as it was before, or so far on the way to what some rounds of a chain made of it. */
export interface Candidate {
  readonly drafter: string;
  /** Null: as it was before. */
  readonly chain: Chain | null;
  readonly rounds: number;
  /** 1: all of the way. */
  readonly blend: number;
}

/** Accepted tokens along a clean answer, and the drafts that they are of. */
export interface CleanLength extends StepCounts {
  readonly promptId: string;
}

export type Job =
  | {
      readonly kind: 'hunt';
      readonly chain: Chain;
      readonly round: number;
      readonly places: readonly number[];
    }
  | { readonly kind: 'train'; readonly chain: Chain; readonly round: number }
  | {
      readonly kind: 'audit';
      readonly candidate: Candidate;
      readonly audit: HardeningAudit;
      readonly prompts: readonly Prompt[];
      readonly place: string;
    }
  | { readonly kind: 'clean'; readonly candidate: Candidate; readonly prompts: readonly Prompt[] };

export type JobResult =
  | { readonly kind: 'hunt'; readonly found: readonly SuffixedPrompt[] }
  | { readonly kind: 'train'; readonly record: RoundRecord }
  | { readonly kind: 'audit'; readonly prompts: readonly PromptResult[] }
  | { readonly kind: 'clean'; readonly lengths: readonly CleanLength[] };

export const chainFolder = (study: Study, { drafter, variant, role }: Chain): string =>
  join(study.folder, 'chains', `${drafter}-${variant.name}-${role}`);

export const roundFolder = (study: Study, chain: Chain, round: number): string =>
  join(chainFolder(study, chain), chain.role, `round-${round + 1}`);

/** Of a drafter that was made; one that is not blended lies where it was trained. */
export function blendFolder(study: Study, { chain, rounds, blend }: Candidate): string {
  if (blend === 1) return join(roundFolder(study, chain!, rounds - 1), 'last');
  return join(study.folder, 'blends', `${basename(chainFolder(study, chain!))}-${rounds}-${blend}`);
}
