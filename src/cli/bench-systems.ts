/** From --drafter, --draft and --prompts to what is measured: names that are unique, policies that are understood. */
import { basename, extname, resolve } from 'node:path';
import { MistletoeError } from '../core/errors.js';
import { bundledDrafters, findDrafterFolder } from '../decode/bundled-drafters.js';
import { bundledTarget } from '../decode/bundled-models.js';
import type { DraftPolicy } from '../draft/policy.js';
import { parseDraftPolicy } from '../draft/policy.js';
import { promptSetFiles } from '../text/prompt-set.js';
import type { BenchFlags } from './bench-command.js';
import { bundledPrompts } from './bench-command.js';

export interface DrafterPlan {
  readonly name: string;
  readonly folder: string;
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
  const folders = nameUniquely('--drafter', given.map(findDrafterFolder));
  const choices = draft.map(parseDraftChoice);
  const stray = choices.find(({ name }) => name !== undefined && !folders.has(name));
  if (stray?.name !== undefined) {
    throw new MistletoeError(
      'usage',
      `--draft names ${stray.name}, which is no drafter of this run; there are ${[...folders.keys()].join(', ')}.`,
      { hint: 'Write NAME=POLICY with the name of a drafter’s folder, or POLICY alone for all.' },
    );
  }
  const common = choices.filter(({ name }) => name === undefined);
  return [...folders].map(([name, folder]) => {
    const own = choices.filter((choice) => choice.name === name);
    return { name, folder, policies: (own.length > 0 ? own : common).map(({ policy }) => policy) };
  });
}

interface DraftChoice {
  readonly name: string | undefined;
  readonly policy: DraftPolicy;
}

/** A path in `tree:PATH` may hold an equals sign, too; names of drafters stand before any colon. */
function parseDraftChoice(text: string): DraftChoice {
  const [, name, policy = text] = /^([^:=]+)=(.*)$/.exec(text) ?? [];
  return { name, policy: parseDraftPolicy(policy) };
}

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
  const sources = nameUniquely('--prompts', prompts.length === 0 ? [bundledPrompts] : prompts);
  return [...sources].map(([name, source]) => ({ name, source }));
}

function isKnown(source: string): boolean {
  return Object.hasOwn(promptSetFiles, source);
}

/** The last part of each path, or the whole path where that is not unique. */
function nameUniquely(option: string, paths: readonly string[]): Map<string, string> {
  const shortName = (path: string): string =>
    basename(resolve(path), option === '--prompts' ? extname(path) : '');
  const named = new Map<string, string>();
  const seen = new Set<string>();
  for (const path of paths) {
    if (seen.has(resolve(path))) {
      throw new MistletoeError('usage', `${option} ${path} was given twice.`, {
        hint: 'Each may be measured once; give --draft several times to try several policies.',
      });
    }
    seen.add(resolve(path));
    const isUnique = paths.filter((other) => shortName(other) === shortName(path)).length === 1;
    named.set(isUnique ? shortName(path) : path, path);
  }
  return named;
}
