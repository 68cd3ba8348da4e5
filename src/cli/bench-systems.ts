/** From --drafter, --draft and --prompts to what is measured: names that are unique, policies that are understood. */
import { basename, extname, resolve } from 'node:path';
import { nameModel } from '../checkpoint/hub/hub-cache.js';
import { MistletoeError } from '../core/errors.js';
import { bundledDrafters, bundledPrompts, bundledTarget } from '../decode/bundled-models.js';
import { findDrafter } from '../decode/find-drafter.js';
import type { DraftPolicy } from '../draft/tree/policy.js';
import { parseDraftPolicy } from '../draft/tree/policy.js';
import { findWeightless } from '../draft/systems.js';
import { promptSetFiles } from '../text/prompts/prompt-set.js';
import type { BenchFlags } from './command-flags.js';

export interface DrafterPlan {
  readonly name: string;
  /** A folder, or a system without weights. */
  readonly source: string;
  /** Each is a system of its own. Empty: the default. */
  readonly policies: readonly DraftPolicy[];
}

export function planDrafters({ target, drafter, draft }: BenchFlags): readonly DrafterPlan[] {
  if (drafter.length === 0 && resolve(target) !== bundledTarget) {
    throw new MistletoeError('usage', `bench has no drafter for the target ${target}.`, {
      hint: 'Give --drafter DIR; the bundled drafters fit the bundled target only.',
    });
  }
  const given = drafter.length === 0 ? bundledDrafters : drafter;
  const sources = nameUniquely('--drafter', given.map(findDrafter), nameDrafter);
  const choices = draft.map((text) => parseDraftChoice(text, [...sources.keys()]));
  const stray = choices.find(({ name }) => name !== undefined && !sources.has(name));
  if (stray?.name !== undefined) {
    throw new MistletoeError(
      'usage',
      `--draft names ${stray.name}, which is no drafter of this run; there are ${[...sources.keys()].join(', ')}.`,
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

/** A path in `tree:PATH` may hold an equals sign, too; names that are no drafter's stand before any colon. */
function parseDraftChoice(text: string, names: readonly string[]): DraftChoice {
  const known = names.find((name) => text.startsWith(`${name}=`));
  if (known !== undefined) return { name: known, policy: parseDraftPolicy(text.slice(known.length + 1)) };
  const [, name, policy = text] = /^([^:=]+)=(.*)$/.exec(text) ?? [];
  return { name, policy: parseDraftPolicy(policy) };
}

const nameDrafter = (source: string): string => findWeightless(source)?.name ?? nameModel(source);

export interface PromptSource {
  readonly name: string;
  readonly source: string;
}

export function planPromptSets({ prompts }: BenchFlags): readonly PromptSource[] {
  const wrong = prompts.find((source) => !isKnown(source) && !/\.(jsonl|txt)$/.test(source));
  if (wrong !== undefined) {
    throw new MistletoeError(
      'usage',
      `--prompts is ${wrong}; a .jsonl or .txt file, or one of ${Object.keys(promptSetFiles).join(', ')} was expected.`,
      { hint: 'Sets known by name are read from --prompts-dir.' },
    );
  }
  const given = prompts.length === 0 ? [bundledPrompts] : prompts;
  const sources = nameUniquely('--prompts', given, (path) => basename(resolve(path), extname(path)));
  return [...sources].map(([name, source]) => ({ name, source }));
}

function isKnown(source: string): boolean {
  return Object.hasOwn(promptSetFiles, source);
}

/** A short name for each, or the whole of what was given where that is not unique. */
function nameUniquely(
  option: string,
  given: readonly string[],
  shortName: (value: string) => string,
): Map<string, string> {
  const named = new Map<string, string>();
  const seen = new Set<string>();
  for (const value of given) {
    if (seen.has(resolve(value))) {
      throw new MistletoeError('usage', `${option} ${value} was given twice.`, {
        hint: 'Each may be measured once; give --draft several times to try several policies.',
      });
    }
    seen.add(resolve(value));
    const isUnique = given.filter((other) => shortName(other) === shortName(value)).length === 1;
    named.set(isUnique ? shortName(value) : value, value);
  }
  return named;
}
