import { MistletoeError } from '../../core/errors.js';
import { createRandom } from '../../core/random.js';
import { Engine } from '../../decode/engine.js';
import { transferSchema, type UnitName } from '../units/audit-unit.js';
import { type AuditPrompt, preparePrompt } from './audit-prompt.js';
import type { DrafterAudit } from './drafter-audit.js';
import type { AuditRequest } from '../audit-request.js';
import { decodeHeld } from './measure-arm.js';
import type { ArmName, ArmResult, DrafterResult, PromptResult, TransferMatrix } from '../result.js';
import type { UnitSource } from '../../runs/run-units.js';
import { type StepCounts, acceptedLengthOf, poolCounts } from '../../measure/statistics.js';

/** Prompts decoded at once. */
const batchSize = 8;

export function poolLengths(counts: readonly StepCounts[]): number {
  return acceptedLengthOf(poolCounts(counts));
}

export async function countAlongAnswer(
  { target, drafter, policy, request }: DrafterAudit,
  prompt: AuditPrompt,
  suffixIds: readonly number[],
  engine: Engine,
): Promise<StepCounts> {
  const { settings, seed } = request;
  const setup = { target, drafter, policy, prompt, settings, seed };
  const { acceptance } = await decodeHeld(setup, suffixIds, { engine });
  return { accepted: acceptance.accepted, steps: acceptance.steps };
}

export const transferName = (found: string, measured: string): UnitName => ({
  drafter: measured,
  prompt: `suffixes of ${found}`,
  arm: 'transfer',
});

/** Suffixes found on another drafter, measured along the same answers. */
export async function measureTransfer(
  audit: DrafterAudit,
  suffixes: readonly (readonly number[])[], // [prompt of the request]
  onCounts: (promptId: string, counts: StepCounts) => void,
): Promise<void> {
  const { target, request } = audit;
  const { prompts, settings, seed } = request;
  for (let start = 0; start < prompts.length; start += batchSize) {
    const batch = prompts.slice(start, start + batchSize);
    const engine = new Engine({ concurrency: batchSize });
    const counts = await Promise.all(
      batch.map(async (given, index) => {
        const prompt = await preparePrompt(target, given, { ...settings, seed });
        return engine.run(() => countAlongAnswer(audit, prompt, suffixes[start + index]!, engine));
      }),
    );
    batch.forEach(({ id }, index) => {
      onCounts(id, counts[index]!);
    });
  }
}

export function collectTransfer(
  source: UnitSource,
  request: AuditRequest,
  results: readonly DrafterResult[],
): TransferMatrix {
  const prompts = listShared(request, results);
  const drafters = results.map(({ drafter }) => drafter);
  const lengthOf = (found: DrafterResult, measured: string): number | null => {
    if (measured === found.drafter)
      return poolLengths(prompts.map((id) => findArm(found, id, 'attack')!.sameAnswer));
    const counts = readTransfer(source, found.drafter, measured, prompts);
    return counts.length < prompts.length ? null : poolLengths(counts);
  };
  const clean = results.map((result) =>
    poolLengths(prompts.map((id) => findArm(result, id, 'clean')!.sameAnswer)),
  );
  const attacked = results.map((found) => drafters.map((measured) => lengthOf(found, measured)));
  return { drafters, prompts, attacked, clean };
}

type AuditedDrafter = Pick<DrafterResult, 'drafter' | 'prompts'>;

/** Prompts that were audited on all drafters. */
export function listShared({ prompts }: AuditRequest, results: readonly AuditedDrafter[]): string[] {
  return prompts.map(({ id }) => id).filter((id) => results.every((result) => isAudited(result, id)));
}

const isAudited = (result: AuditedDrafter, id: string): boolean =>
  findPrompt(result, id)?.skipped === null && findArm(result, id, 'attack') !== undefined;

const findPrompt = ({ prompts }: AuditedDrafter, id: string): PromptResult | undefined =>
  prompts.find(({ promptId }) => promptId === id);

/** The first of the prompt. */
export function findArm(result: AuditedDrafter, id: string, name: ArmName): ArmResult | undefined {
  return findPrompt(result, id)?.arms.find(({ arm }) => arm === name);
}

export const transferKey = (found: string, measured: string, promptId: string): string =>
  `transfer/${found}/${measured}/${promptId}`;

/** Without those that failed. */
function readTransfer(
  source: UnitSource,
  found: string,
  measured: string,
  prompts: readonly string[],
): StepCounts[] {
  return prompts.flatMap((id) => {
    const key = transferKey(found, measured, id);
    const counts = source.get(key, transferSchema);
    if (counts !== undefined) return 'failed' in counts ? [] : [counts];
    throw new MistletoeError('usage', `The run has no unit ${key}.`, {
      hint: 'It is not finished, or a line of its units.jsonl was removed.',
    });
  });
}

export function splitPrompts<T>(prompts: readonly T[], seed: number): { trained: T[]; heldOut: T[] } {
  const shuffled = [...prompts];
  createRandom(seed, 'universal', 'split').shuffle(shuffled);
  const count = Math.max(1, Math.ceil((prompts.length * 2) / 3));
  return { trained: shuffled.slice(0, count), heldOut: shuffled.slice(count) };
}
