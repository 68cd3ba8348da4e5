/** Turns --drafter and --draft into what is measured, with unique names. */
import { resolve } from 'node:path';
import { MistletoeError } from '../core/errors.js';
import { bundledDrafters, bundledTarget } from '../core/package-files.js';
import { findDrafter } from '../decode/find-drafter.js';
import { type DraftPolicy, parseDraftPolicy } from '../draft/tree/policy.js';
import { nameDrafter } from '../draft/systems.js';
import type { BenchPlan } from '../runs/bench-units.js';
import { nameUniquely } from './model-source.js';

interface BenchSubjects {
  readonly target: string;
  readonly drafter: readonly string[];
  readonly draft: readonly string[];
}

export function planDrafters({ target, drafter, draft }: BenchSubjects): BenchPlan['drafters'] {
  if (drafter.length === 0 && resolve(target) !== bundledTarget) {
    throw new MistletoeError('usage', `bench has no drafter for the target ${target}.`, {
      hint: 'Give --drafter DIR; the bundled drafters fit the bundled target only.',
    });
  }
  // A lookup drafts chains only, so a policy for all drafters might not fit it.
  const lookups = draft.length === 0 ? ['ngram', 'ngram+eagle3'] : [];
  const given = drafter.length === 0 ? [...bundledDrafters, ...lookups] : drafter;
  const sources = nameUniquely('--drafter', given.map(findDrafter), nameDrafter);
  const choices = draft.map((text) => parseDraftChoice(text, [...sources.keys()]));
  const stray = choices.find(({ name }) => name !== undefined && !sources.has(name));
  if (stray?.name !== undefined) {
    throw new MistletoeError(
      'usage',
      `--draft names ${stray.name}, which is not a drafter of this run; the drafters are ${[...sources.keys()].join(', ')}.`,
      { hint: 'Write NAME=POLICY with the name of a drafter’s folder, or POLICY alone for all.' },
    );
  }
  const common = choices.filter(({ name }) => name === undefined);
  return [...sources].map(([name, source]) => {
    const own = choices.filter((choice) => choice.name === name);
    return { name, source, policies: (own.length > 0 ? own : common).map(({ policy }) => policy) };
  });
}

interface DraftChoice {
  readonly name: string | undefined;
  readonly policy: DraftPolicy;
}

/** A path in `tree:PATH` may contain an equals sign; unknown names are recognized before any colon. */
function parseDraftChoice(text: string, names: readonly string[]): DraftChoice {
  const known = names.find((name) => text.startsWith(`${name}=`));
  if (known !== undefined) return { name: known, policy: parseDraftPolicy(text.slice(known.length + 1)) };
  const [, name, policy = text] = /^([^:=]+)=(.*)$/.exec(text) ?? [];
  return { name, policy: parseDraftPolicy(policy) };
}
