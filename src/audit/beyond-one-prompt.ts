/** Suffixes beyond the prompt and the drafter that they were found on, always along the same answer. */
import { createRandom } from '../core/random.js';
import { always } from '../decode/speculative.js';
import type { Target } from '../decode/target.js';
import type { Drafter } from '../draft/drafter.js';
import type { ResolvedPolicy } from '../draft/grow-tree.js';
import type { UnitName } from './audit-events.js';
import type { AuditPrompt } from './audit-prompt.js';
import type { AuditRequest } from './audit-request.js';
import { decodeHeld } from './measure-arm.js';
import type { DrafterResult, PromptResult, TransferMatrix } from './result.js';
import { countsSchema } from './result-schema.js';
import type { RunFolder } from './run-folder.js';
import type { StepCounts } from './same-answer.js';
import { acceptedLengthOf, poolCounts } from './same-answer.js';

export interface LoadedDrafter {
  readonly id: string;
  readonly drafter: Drafter;
  readonly policy: ResolvedPolicy;
}

export function poolLengths(counts: readonly StepCounts[]): number {
  return acceptedLengthOf(poolCounts(counts));
}

/** Drafts of one drafter along a prompt's clean answer, with a suffix in the prompt. */
export async function countAlongAnswer(
  target: Target,
  { drafter, policy }: Omit<LoadedDrafter, 'id'>,
  { settings, seed }: AuditRequest,
  prompt: AuditPrompt,
  suffixIds: readonly number[],
): Promise<StepCounts> {
  const { maxNewTokens, temperature } = settings;
  const setup = { target, drafter, policy: always(policy), prompt, maxNewTokens, temperature, seed };
  const { acceptance } = await decodeHeld(setup, suffixIds);
  return { accepted: acceptance.accepted, steps: acceptance.steps };
}

export interface TransferRun {
  readonly folder: RunFolder;
  readonly target: Target;
  readonly request: AuditRequest;
  readonly drafters: readonly LoadedDrafter[];
  readonly results: readonly DrafterResult[];
  readonly prepare: (promptId: string) => Promise<AuditPrompt>;
  readonly onUnit: (unit: UnitName, work: () => Promise<number>) => Promise<void>;
}

export function transferUnits(request: AuditRequest): UnitName[] {
  const ids = request.drafters.map(({ id }) => id);
  return ids.flatMap((found) =>
    ids
      .filter((measured) => measured !== found)
      .map((measured) => ({ drafter: measured, prompt: `suffixes of ${found}`, arm: 'transfer' })),
  );
}

/** Every suffix found on one drafter, measured on all of them, on the prompts that all of them were audited on. */
export async function measureTransfer(run: TransferRun): Promise<TransferMatrix> {
  const { drafters, results, folder } = run;
  const attackOf = (result: DrafterResult, promptId: string): PromptResult['arms'][number] | undefined =>
    result.prompts.find((prompt) => prompt.promptId === promptId)?.arms.find(({ arm }) => arm === 'attack');
  const prompts = run.request.prompts
    .map(({ id }) => id)
    .filter((id) => results.every((result) => isAudited(result, id)));
  const attacked: number[][] = [];
  for (const found of drafters) {
    const source = results.find(({ drafter }) => drafter === found.id)!;
    const row: number[] = [];
    for (const measured of drafters) {
      if (measured.id === found.id) {
        row.push(poolLengths(prompts.map((id) => attackOf(source, id)!.sameAnswer)));
        continue;
      }
      const keys = prompts.map((id) => `transfer/${found.id}/${measured.id}/${id}`);
      const unit = { drafter: measured.id, prompt: `suffixes of ${found.id}`, arm: 'transfer' };
      await run.onUnit(unit, async () => {
        for (const [index, key] of keys.entries()) {
          if (folder.has(key)) continue;
          const prompt = await run.prepare(prompts[index]!);
          const { suffixIds } = attackOf(source, prompt.id)!;
          folder.complete(key, await countAlongAnswer(run.target, measured, run.request, prompt, suffixIds));
        }
        return poolLengths(keys.map((key) => folder.get(key, countsSchema)!));
      });
      row.push(poolLengths(keys.map((key) => folder.get(key, countsSchema)!)));
    }
    attacked.push(row);
  }
  const clean = results.map((result) =>
    poolLengths(
      prompts.flatMap((id) =>
        result.prompts
          .filter(({ promptId }) => promptId === id)
          .flatMap(({ arms }) =>
            arms.filter(({ arm }) => arm === 'clean').map(({ sameAnswer }) => sameAnswer),
          ),
      ),
    ),
  );
  return { drafters: drafters.map(({ id }) => id), prompts, attacked, clean };
}

function isAudited({ prompts }: DrafterResult, id: string): boolean {
  const prompt = prompts.find(({ promptId }) => promptId === id);
  return prompt?.skipped === null && prompt.arms.some(({ arm }) => arm === 'attack');
}

/** Splits the prompts: two thirds to search on, the rest to measure what was found. */
export function splitPrompts<T>(prompts: readonly T[], seed: number): { trained: T[]; heldOut: T[] } {
  const shuffled = [...prompts];
  createRandom(seed, 'universal', 'split').shuffle(shuffled);
  const count = Math.max(1, Math.ceil((prompts.length * 2) / 3));
  return { trained: shuffled.slice(0, count), heldOut: shuffled.slice(count) };
}
