import { MistletoeError } from '../../core/errors.js';
import { createRandom } from '../../core/random.js';
import { Engine } from '../../decode/engine/engine.js';
import { always } from '../../decode/policies/policy-chooser.js';
import type { Target } from '../../decode/target.js';
import type { Drafter } from '../../draft/drafter.js';
import type { ResolvedPolicy } from '../../draft/tree/grow-tree.js';
import type { PassScheduler } from '../../model/lanes/lane-program.js';
import type { UnitName } from '../audit-events.js';
import type { AuditPrompt } from './audit-prompt.js';
import type { AuditRequest } from '../audit-request.js';
import { decodeHeld } from './measure-arm.js';
import type { DrafterResult, PromptResult, TransferMatrix } from '../result.js';
import { countsSchema } from '../result.js';
import type { RunFolder } from '../../runs/run-folder.js';
import type { UnitSource } from '../../runs/run-units.js';
import type { StepCounts } from '../../measure/bootstrap.js';
import { acceptedLengthOf, poolCounts } from '../../measure/bootstrap.js';

export interface LoadedDrafter {
  readonly id: string;
  readonly drafter: Drafter;
  readonly policy: ResolvedPolicy;
}

/** Prompts decoded at once. */
const batchSize = 8;

export function poolLengths(counts: readonly StepCounts[]): number {
  return acceptedLengthOf(poolCounts(counts));
}

export async function countAlongAnswer(
  target: Target,
  { drafter, policy }: Omit<LoadedDrafter, 'id'>,
  { settings, seed }: AuditRequest,
  prompt: AuditPrompt,
  suffixIds: readonly number[],
  scheduler: PassScheduler,
): Promise<StepCounts> {
  const { maxNewTokens, temperature } = settings;
  const setup = { target, drafter, policy: always(policy), prompt, maxNewTokens, temperature, seed };
  const { acceptance } = await decodeHeld(setup, suffixIds, { scheduler });
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

/** On the prompts that all drafters were audited on. */
export async function measureTransfer(run: TransferRun): Promise<TransferMatrix> {
  const { drafters, results, folder, request } = run;
  const prompts = listShared(request, results);
  for (const found of results) {
    for (const measured of drafters) {
      if (measured.id === found.drafter) continue;
      const unit = { drafter: measured.id, prompt: `suffixes of ${found.drafter}`, arm: 'transfer' };
      await run.onUnit(unit, async () => {
        const keyOf = (promptId: string): string => transferKey(found.drafter, measured.id, promptId);
        const missing = prompts.filter((promptId) => !folder.has(keyOf(promptId)));
        for (let start = 0; start < missing.length; start += batchSize) {
          const batch = missing.slice(start, start + batchSize);
          const engine = new Engine({ concurrency: batchSize });
          const counts = await Promise.all(
            batch.map(async (promptId) => {
              const prompt = await run.prepare(promptId);
              const { suffixIds } = attackOf(found, promptId)!;
              return engine.run((scheduler) =>
                countAlongAnswer(run.target, measured, request, prompt, suffixIds, scheduler),
              );
            }),
          );
          batch.forEach((promptId, index) => {
            folder.complete(keyOf(promptId), counts[index]!);
          });
        }
        return poolLengths(readTransfer(folder, found.drafter, measured.id, prompts));
      });
    }
  }
  return collectTransfer(folder, request, results);
}

export function collectTransfer(
  source: UnitSource,
  request: AuditRequest,
  results: readonly DrafterResult[],
): TransferMatrix {
  const prompts = listShared(request, results);
  const drafters = results.map(({ drafter }) => drafter);
  const lengthOf = (found: DrafterResult, measured: string): number =>
    poolLengths(
      measured === found.drafter
        ? prompts.map((id) => attackOf(found, id)!.sameAnswer)
        : readTransfer(source, found.drafter, measured, prompts),
    );
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
  const attacked = results.map((found) => drafters.map((measured) => lengthOf(found, measured)));
  return { drafters, prompts, attacked, clean };
}

function listShared({ prompts }: AuditRequest, results: readonly DrafterResult[]): string[] {
  return prompts.map(({ id }) => id).filter((id) => results.every((result) => isAudited(result, id)));
}

function attackOf({ prompts }: DrafterResult, id: string): PromptResult['arms'][number] | undefined {
  return prompts.find(({ promptId }) => promptId === id)?.arms.find(({ arm }) => arm === 'attack');
}

const transferKey = (found: string, measured: string, promptId: string): string =>
  `transfer/${found}/${measured}/${promptId}`;

function readTransfer(
  source: UnitSource,
  found: string,
  measured: string,
  prompts: readonly string[],
): StepCounts[] {
  return prompts.map((id) => {
    const key = transferKey(found, measured, id);
    const counts = source.get(key, countsSchema);
    if (counts !== undefined) return counts;
    throw new MistletoeError('usage', `The run has no unit ${key}.`, {
      hint: 'It is not finished, or a line of its units.jsonl was removed.',
    });
  });
}

function isAudited({ prompts }: DrafterResult, id: string): boolean {
  const prompt = prompts.find(({ promptId }) => promptId === id);
  return prompt?.skipped === null && prompt.arms.some(({ arm }) => arm === 'attack');
}

export function splitPrompts<T>(prompts: readonly T[], seed: number): { trained: T[]; heldOut: T[] } {
  const shuffled = [...prompts];
  createRandom(seed, 'universal', 'split').shuffle(shuffled);
  const count = Math.max(1, Math.ceil((prompts.length * 2) / 3));
  return { trained: shuffled.slice(0, count), heldOut: shuffled.slice(count) };
}
