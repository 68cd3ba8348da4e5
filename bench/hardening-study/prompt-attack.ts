/**
 * What the attack of an audit finds on one prompt, without the controls that an audit measures beside it: the same search
 * from the same seeds, the suffix chosen and measured in the same way, at less than half of the cost.
 */
import { listAllowedTokens } from '../../src/audit/arms/controls.js';
import type { ArmName } from '../../src/audit/arms/arms.js';
import { preparePrompt } from '../../src/audit/arms/audit-prompt.js';
import { decodeFreely, decodeHeld } from '../../src/audit/arms/measure-arm.js';
import { createObjective, parseObjective } from '../../src/audit/search/objectives.js';
import { runArm } from '../../src/audit/arms/prompt-audit.js';
import { readPromptState } from '../../src/audit/search/prompt-state.js';
import type { ArmResult, PromptResult } from '../../src/audit/result.js';
import { Scorer } from '../../src/audit/search/scoring.js';
import { compileSearch } from '../../src/audit/search/search-programs.js';
import type { AuditSettings } from '../../src/audit/settings.js';
import { MistletoeError } from '../../src/core/errors.js';
import { lazily } from '../../src/core/lazy.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import type { Target } from '../../src/decode/target.js';
import type { Drafter } from '../../src/draft/drafter.js';
import { levelsOf, resolvePolicy } from '../../src/draft/tree/grow-tree.js';
import type { Prompt } from '../../src/text/prompts/prompt-set.js';
import type { CleanLength } from './jobs.js';

const policyOf = (drafter: Drafter) =>
  resolvePolicy({ kind: 'chain', length: Math.min(4, drafter.maximumDepth) }, drafter);
const measured: readonly ArmName[] = ['clean', 'random', 'attack'];

export async function attackPrompts(
  target: Target,
  drafter: Drafter,
  prompts: readonly Prompt[],
  {
    settings,
    seed,
    name,
  }: { readonly settings: AuditSettings; readonly seed: number; readonly name: string },
): Promise<PromptResult[]> {
  const policy = policyOf(drafter);
  const models = { target: target.model, drafter };
  const { vocabularySize } = target.model.configuration;
  const objective = createObjective(
    parseObjective(settings.objective),
    Math.min(settings.draftDepth, drafter.maximumDepth),
  );
  const programs = compileSearch(models, objective, { ...settings, draftLevels: levelsOf(policy) });
  const results: PromptResult[] = [];
  try {
    for (const prompt of prompts) {
      const prepared = await preparePrompt(target, prompt, { ...settings, seed });
      const state = await readPromptState(models, prepared.beforeIds);
      const { maxNewTokens, temperature } = settings;
      const setup = {
        target,
        drafter,
        policy: always(policy),
        prompt: prepared,
        maxNewTokens,
        temperature,
        seed,
      };
      const audit = {
        ...{
          ...setup,
          scorer: new Scorer(target, models, programs, prepared, state),
          bounds: settings,
          settings,
        },
        clean: lazily(() => decodeFreely(setup, [])),
        allowed: listAllowedTokens(target.tokenizer, vocabularySize, settings),
        ...{ unit: `${name}/${prompt.id}`, given: [] },
      };
      const arms: ArmResult[] = [];
      for (const arm of measured) arms.push((await runArm(audit, { arm, repeat: 1 }))!.result);
      const { id: promptId, category = null, text } = prompt;
      results.push({ promptId, category, prompt: text, skipped: null, arms, traces: [] });
    }
    return results;
  } finally {
    await programs.dispose();
  }
}

/** Drafts along the clean answers of many prompts; those whose answers are too short to audit are passed over. */
export async function measureClean(
  target: Target,
  drafter: Drafter,
  prompts: readonly Prompt[],
  options: AuditSettings & { readonly seed: number },
): Promise<CleanLength[]> {
  const policy = always(policyOf(drafter));
  const lengths: CleanLength[] = [];
  for (const prompt of prompts) {
    try {
      const prepared = await preparePrompt(target, prompt, options);
      const { maxNewTokens, temperature, seed } = options;
      const setup = { target, drafter, policy, prompt: prepared, maxNewTokens, temperature, seed };
      const { acceptance } = await decodeHeld(setup, []);
      lengths.push({ promptId: prompt.id, steps: acceptance.steps, accepted: acceptance.accepted });
    } catch (cause) {
      if (!(cause instanceof MistletoeError) || cause.code !== 'incomplete') throw cause;
    }
  }
  return lengths;
}
