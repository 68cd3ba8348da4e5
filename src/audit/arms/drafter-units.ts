import { type KeepRule, satisfies } from '../../measure/kept-class.js';
import type { UnitSource } from '../../runs/run-units.js';
import { fingerprintPrompt } from '../../text/prompts/suffix-list.js';
import { type ArmName, type ArmResult, isSearched, type PromptResult } from '../result.js';
import { type UnitData, type UnitName, unitSchema } from '../units/audit-unit.js';
import type { AuditRequest } from '../audit-request.js';
import type { ArmKey } from './measure-arm.js';

export type RequestPrompt = AuditRequest['prompts'][number];

/** In the order in which they run. */
export function armKeys(
  { settings, suffixes }: Pick<AuditRequest, 'settings' | 'suffixes'>,
  drafterId: string,
  promptId: string,
): readonly ArmKey[] {
  const times = (arm: ArmName, count: number): ArmKey[] =>
    Array.from({ length: count }, (_, index) => ({ arm, repeat: index + 1 }));
  const controls = [
    ...times('clean', 1),
    ...times('clean-again', 1),
    ...times('random', settings.randomDraws),
    ...times('fluent', 1),
  ];
  if (suffixes.length > 0)
    return [...controls, ...times('given', givenFor(suffixes, drafterId, promptId).length)];
  return [
    ...controls,
    ...(settings.controlSearches ? [...times('preservation-only', 1), ...times('unprojected', 1)] : []),
    ...times('attack', settings.repeats),
    // Behind the attack, whose effort it matches.
    ...times('undirected', settings.repeats),
  ];
}

export function givenFor(
  suffixes: AuditRequest['suffixes'],
  drafterId: string,
  promptId: string,
): AuditRequest['suffixes'] {
  return suffixes.filter(
    (given) => (given.promptId ?? promptId) === promptId && (given.drafterId ?? drafterId) === drafterId,
  );
}

const formatArm = ({ arm, repeat }: ArmKey): string => (repeat === 1 ? arm : `${arm}#${repeat}`);

export const nameUnit = (drafter: string, prompt: string, key: ArmKey): UnitName => ({
  drafter,
  prompt,
  arm: formatArm(key),
});

export const unitKey = (id: string, prompt: string, arm: ArmKey): string =>
  `${id}/${prompt}/${formatArm(arm)}`;

/** Why a prompt is skipped before any of its arms runs. */
export function skipAll(keys: readonly ArmKey[]): string | null {
  return keys.some(isCounted) ? null : 'No suffix was given for this prompt.';
}

/** A prompt needs a clean arm to compare with, and an attack to report. */
export function skipOf(key: ArmKey, data: UnitData | undefined): string | null {
  const isNeeded = key.arm === 'clean' || isCounted(key);
  return isNeeded && data !== undefined && 'skipped' in data ? data.skipped : null;
}

const isCounted = ({ arm }: ArmKey): boolean => arm === 'attack' || arm === 'given';

export function collectPrompt(
  source: UnitSource,
  request: Pick<AuditRequest, 'settings' | 'suffixes'>,
  id: string,
  prompt: RequestPrompt,
): PromptResult {
  const keys = armKeys(request, id, prompt.id);
  let skipped = skipAll(keys);
  const units = keys.flatMap((key) => {
    // Units that come later in this order do not count, in whichever order they ran.
    if (skipped !== null) return [];
    const data = source.get(unitKey(id, prompt.id, key), unitSchema);
    skipped ??= skipOf(key, data);
    return data !== undefined && 'result' in data ? [data] : [];
  });
  const { keep } = request.settings;
  const given = givenFor(request.suffixes, id, prompt.id);
  const clean = units.find(({ result }) => result.arm === 'clean')?.result;
  return {
    promptId: prompt.id,
    category: prompt.category ?? null,
    prompt: prompt.text,
    skipped,
    arms: units.map(({ result }) => ({
      ...(clean === undefined ? result : countArm(result, clean, keep)),
      ...(result.arm === 'given' ? describeOrigin(given[result.repeat - 1]!, prompt) : {}),
    })),
    traces: units.flatMap(({ trace }) => trace ?? []),
  };
}

/** A suffix that belongs to a prompt was chosen on it, whatever else the file says. */
function describeOrigin(
  { promptId, chosenOn = [] }: AuditRequest['suffixes'][number],
  { id, text }: RequestPrompt,
): Pick<ArmResult, 'origin'> {
  if (promptId === undefined && chosenOn.length === 0) return {};
  const replayed = promptId === id || chosenOn.includes(fingerprintPrompt(text));
  return { origin: { chosenOn, replayed } };
}

/**
 * A search keeps only suffixes that keep the answer, but it decodes them in a batch, and in 16 bits a batch can round
 * to other tokens. So the measured answer decides: if it breaks the --keep rule, the arm counts as the prompt without
 * a suffix. An arm without a suffix takes over the clean arm's measurements, so its drop is exactly 0.
 */
export function countArm(measured: ArmResult, clean: ArmResult, keep: KeepRule): ArmResult {
  if (!isSearched(measured.arm)) return measured;
  const { arm, repeat, slowOther, suffix, answer, compared, preservation } = measured;
  const { kept, editSimilarity: similarity } = preservation;
  if (measured.withoutSuffix !== null)
    return { ...clean, arm, repeat, withoutSuffix: measured.withoutSuffix, slowOther };
  if (satisfies(keep, kept, similarity)) return measured;
  return {
    ...clean,
    arm,
    repeat,
    slowOther,
    withoutSuffix: `The suffix kept the answer during the search but not when it was measured (--keep ${keep}; the answer is ${kept}).`,
    notKept: { suffix, answer: answer.text, similarity, compared },
  };
}
