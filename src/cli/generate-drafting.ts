/** From --drafter, --draft and --verify to a drafter that is loaded and a policy that fits it. */
import { MistletoeError } from '../core/errors.js';
import type { SamplingOptions } from '../core/sampling.js';
import { findDrafter } from '../decode/find-drafter.js';
import type { PolicyChooser } from '../decode/policies/policy-chooser.js';
import { checkRule } from '../decode/verification/verifier.js';
import { createPolicy, defaultDraftPolicy } from '../decode/speculative-text.js';
import type { Target } from '../decode/target.js';
import type { VerificationRule } from '../decode/verification/verification.js';
import type { ReadingOptions } from '../draft/draft-system.js';
import type { Drafter } from '../draft/drafter.js';
import { loadDrafter } from '../draft/load-drafter.js';
import type { DraftPolicy } from '../draft/tree/policy.js';
import { parseDraftPolicy } from '../draft/tree/policy.js';
import type { GenerateFlags } from './command-flags.js';

/** What was asked for, understood but not loaded. */
export interface DraftingPlan {
  /** A folder, or a system without weights. */
  readonly source: string;
  readonly draftPolicy: DraftPolicy | undefined;
  readonly rule: VerificationRule | undefined;
  readonly sampling: SamplingOptions;
}

/** Undefined without a drafter. Whatever is wrong in the options themselves is refused here, before anything is loaded. */
export function planDrafting(flags: GenerateFlags, sampling: SamplingOptions): DraftingPlan | undefined {
  const { drafter, draft, verify, taps, showDrafts, format } = flags;
  if (drafter === undefined) {
    const given = { '--draft': draft, '--verify': verify, '--taps': taps, '--show-drafts': showDrafts };
    const stray = Object.entries(given).find(([, value]) => value !== undefined)?.[0];
    if (stray === undefined) return undefined;
    throw new MistletoeError('usage', `${stray} was given without a drafter.`, {
      hint: 'Add --drafter with a folder or a bundled name such as eagle3, or leave it out for plain decoding.',
    });
  }
  if (showDrafts === true && format === 'json') {
    throw new MistletoeError('usage', '--show-drafts marks text; with --format json there is none to mark.', {
      hint: 'Leave it out: acceptedLengths says which tokens of each step were drafted.',
    });
  }
  if (verify !== undefined) checkRule(verify, sampling);
  return {
    source: findDrafter(drafter),
    draftPolicy: draft === undefined ? undefined : parseDraftPolicy(draft),
    rule: verify,
    sampling,
  };
}

/** One for all prompts: what `auto` learns on one helps the next. */
export interface Speculation {
  readonly drafter: Drafter;
  readonly draftPolicy: DraftPolicy;
  readonly policy: PolicyChooser;
  readonly rule: VerificationRule | undefined;
}

interface LoadingOptions extends ReadingOptions {
  readonly cacheFolder?: string;
  readonly verifyCache?: boolean;
  readonly onNotice: (message: string) => void;
}

export async function loadSpeculation(
  { source, rule, sampling, ...plan }: DraftingPlan,
  { model, tokenizer }: Target,
  loading: LoadingOptions,
): Promise<Speculation> {
  const drafter = await loadDrafter(source, { target: model, tokenizer, ...loading });
  const draftPolicy = plan.draftPolicy ?? defaultDraftPolicy(drafter, sampling);
  if (draftPolicy.kind === 'auto' && sampling.temperature > 0) {
    loading.onNotice(
      'With a temperature, --draft auto lets the clock decide where tokens are drawn: the same seed may give another text.',
    );
  }
  return { drafter, draftPolicy, policy: createPolicy(draftPolicy, drafter), rule };
}
