/** Prompts of a study, of every set as many: to be proved on, to choose by, and to measure clean lengths on. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { presets } from '../../src/audit/settings.js';
import { packageRoot } from '../../src/decode/bundled-models.js';
import type { Prompt } from '../../src/text/prompts/prompt-set.js';
import { loadPrompts } from '../../src/text/prompts/prompt-set.js';
import { choosePrompts, promptSets } from '../saved-audit.js';

export interface StudyPrompts {
  /** Of all sets in turn. */
  readonly proof: readonly Prompt[];
  readonly curve: readonly Prompt[];
  /** Behind them in the sets; some may have answers that are too short. */
  readonly clean: readonly Prompt[];
}

export interface PromptCounts {
  readonly proof: number;
  readonly curve: number;
  readonly clean: number;
}

/** `file`: where they are kept, for a machine that has no sets; none where it is empty. */
export async function readPrompts(file: string, counts: PromptCounts): Promise<StudyPrompts> {
  if (file !== '' && existsSync(file)) return JSON.parse(readFileSync(file, 'utf8')) as StudyPrompts;
  const chosen = await choosePrompts(counts.proof + counts.curve, presets.standard.shortestAnswer);
  const take = (from: number, to: number): Prompt[] =>
    Array.from({ length: to - from }, (_, place) =>
      promptSets.flatMap((set) => chosen.get(set)!.slice(from + place, from + place + 1)),
    ).flat();
  const behind = promptSets.map(async (set) => {
    const all = await loadPrompts(set, { folder: join(packageRoot, '../shared/data') });
    const named = all.map((prompt) => ({ ...prompt, id: `${set}-${prompt.id}` }));
    const last = named.findIndex(({ id }) => id === chosen.get(set)!.at(-1)!.id);
    return named.slice(last + 1, last + 1 + counts.clean);
  });
  const prompts: StudyPrompts = {
    ...{ proof: take(0, counts.proof), curve: take(counts.proof, counts.proof + counts.curve) },
    clean: (await Promise.all(behind)).flat(),
  };
  if (file !== '') writeFileSync(file, JSON.stringify(prompts));
  return prompts;
}
