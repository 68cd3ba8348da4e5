/** One drafter over all prompts, unit by unit: what is already in the run's folder is not done again. */
import { MistletoeError } from '../core/errors.js';
import type { PolicyChooser } from '../decode/speculative.js';
import type { Target } from '../decode/target.js';
import type { Drafter } from '../draft/drafter.js';
import type { Prompt } from '../text/prompt-set.js';
import { preparePrompt } from './audit-prompt.js';
import type { AuditRequest } from './audit-request.js';
import { createObjective, parseObjective } from './objectives.js';
import type { PromptAudit } from './prompt-audit.js';
import { runArm } from './prompt-audit.js';
import { readPromptState } from './prompt-state.js';
import type { ArmName, ArmResult, PromptResult, SearchTrace, TracePoint } from './result.js';
import { arms } from './result.js';
import type { RunFolder } from './run-folder.js';
import { Scorer } from './scoring.js';
import type { SearchPrograms } from './search-programs.js';
import { compileSearch } from './search-programs.js';

export interface AuditEvents {
  /** All units in the order in which they run, those that a resumed run has already done included. */
  onStart?(units: readonly UnitName[]): void;
  /** `done` units are finished. */
  onUnitStart?(unit: UnitName, done: number, total: number): void;
  onStep?(unit: UnitName, point: TracePoint, steps: number): void;
  onUnitEnd?(unit: UnitName, acceptedLength: number | undefined): void;
  onNotice?(message: string): void;
}

export interface UnitName {
  readonly drafter: string;
  readonly prompt: string;
  readonly arm: string;
}

export interface DrafterAudit {
  readonly request: AuditRequest;
  readonly folder: RunFolder;
  readonly target: Target;
  readonly id: string;
  readonly drafter: Drafter;
  readonly policy: PolicyChooser;
  readonly allowed: Int32Array;
  readonly events: AuditEvents;
  readonly signal?: AbortSignal | undefined;
  /** Units of the whole run. */
  readonly count: { done: number; readonly total: number };
}

/** The line of a unit: an arm that was measured, or the sentence that says why not. */
type UnitData =
  { readonly result: ArmResult; readonly trace: SearchTrace | null } | { readonly skipped: string };

/** Below this a drafter has nothing to lose. */
const leastCleanLength = 1.05;

export function armsOf({ settings }: AuditRequest): readonly ArmName[] {
  return settings.controlSearches
    ? arms
    : arms.filter((arm) => arm !== 'preservation-only' && arm !== 'unprojected');
}

/** The arms of one prompt on one drafter, and the attack again for each further seed. */
function unitArms(request: AuditRequest): readonly string[] {
  const repeats = Array.from({ length: request.settings.repeats - 1 }, (_, index) => `attack#${index + 2}`);
  return [...armsOf(request), ...repeats];
}

export function unitsOf(request: AuditRequest): UnitName[] {
  return request.drafters.flatMap(({ id }) =>
    request.prompts.flatMap((prompt) =>
      unitArms(request).map((arm) => ({ drafter: id, prompt: prompt.id, arm })),
    ),
  );
}

const unitKey = (id: string, prompt: string, arm: string): string => `${id}/${prompt}/${arm}`;

export async function auditDrafter(audit: DrafterAudit): Promise<PromptResult[]> {
  const results: PromptResult[] = [];
  const compiled: { programs?: SearchPrograms } = {};
  for (const prompt of audit.request.prompts)
    results.push(await auditPrompt(audit, prompt as Prompt, compiled));
  return results;
}

async function auditPrompt(
  audit: DrafterAudit,
  prompt: Prompt,
  compiled: { programs?: SearchPrograms },
): Promise<PromptResult> {
  const { folder, id, request } = audit;
  const units = unitArms(request);
  let prepared: PromptAudit | undefined;
  let skipped: string | null = null;
  for (const arm of units) {
    const key = unitKey(id, prompt.id, arm);
    const name = { drafter: id, prompt: prompt.id, arm };
    if (skipped === null && !folder.has(key)) {
      audit.signal?.throwIfAborted();
      audit.events.onUnitStart?.(name, audit.count.done, audit.count.total);
      const data = await runUnit(
        audit,
        prompt,
        arm,
        async () => (prepared ??= await preparePromptAudit(audit, prompt, compiled)),
      );
      folder.complete(key, data);
      audit.events.onUnitEnd?.(
        name,
        'result' in data ? data.result.acceptance.meanAcceptedLength : undefined,
      );
    }
    const data = folder.get(key) as UnitData | undefined;
    // Without a clean row there is nothing to compare with, without an attack nothing to report.
    if (data !== undefined && 'skipped' in data && (arm === 'clean' || arm === 'attack'))
      skipped ??= data.skipped;
    audit.count.done += 1;
  }
  return collectPrompt(audit, prompt, units, skipped);
}

async function runUnit(
  audit: DrafterAudit,
  prompt: Prompt,
  arm: string,
  prepare: () => Promise<PromptAudit>,
): Promise<UnitData> {
  try {
    const prepared = await prepare();
    const [name, repeat] = arm.split('#') as [ArmName, string | undefined];
    const outcome = await runArm(prepared, name, Number(repeat ?? 0));
    if (outcome === undefined)
      return { skipped: `No ${name} suffix of that length survives in this prompt.` };
    audit.folder.appendTiming(unitKey(audit.id, prompt.id, arm), {
      drafter: audit.id,
      ...outcome.timing,
    });
    const { meanAcceptedLength } = outcome.result.acceptance;
    if (name === 'clean' && meanAcceptedLength < leastCleanLength) {
      return {
        skipped: `The drafter accepts almost nothing already (mean accepted length ${meanAcceptedLength.toFixed(2)}).`,
      };
    }
    return { result: outcome.result, trace: outcome.trace };
  } catch (cause) {
    const isExpected =
      cause instanceof MistletoeError && ['incomplete', 'context', 'text'].includes(cause.code);
    if (!isExpected) throw cause;
    audit.events.onNotice?.(
      `${prompt.id}: ${cause.message}${cause.hint === undefined ? '' : ` ${cause.hint}`}`,
    );
    return { skipped: cause.message };
  }
}

async function preparePromptAudit(
  audit: DrafterAudit,
  prompt: Prompt,
  compiled: { programs?: SearchPrograms },
): Promise<PromptAudit> {
  const { request, target, drafter, id, folder } = audit;
  const { settings, seed } = request;
  const models = { target: target.model, drafter };
  const auditPrompt = await preparePrompt(target, prompt, settings);
  compiled.programs ??= await compileSearch(
    models,
    createObjective(parseObjective(settings.objective), Math.min(settings.draftDepth, drafter.maximumDepth)),
    settings,
  );
  const state = await readPromptState(models, auditPrompt.beforeIds);
  const scorer = new Scorer(target, models, compiled.programs, auditPrompt, state);
  return {
    target,
    drafter,
    policy: audit.policy,
    prompt: auditPrompt,
    scorer,
    maxNewTokens: settings.maxNewTokens,
    bounds: settings,
    settings,
    seed,
    allowed: audit.allowed,
    unit: `${id}/${prompt.id}`,
    starts: (arm) => earlierSuffixes(request, folder, id, prompt.id, arm),
    onStep: (arm, point) => {
      folder.appendStep({ drafter: id, promptId: prompt.id, arm, ...point });
      audit.events.onStep?.({ drafter: id, prompt: prompt.id, arm }, point, settings.steps);
    },
    signal: audit.signal,
  };
}

const inheritedStarts = 3;

/** What the same search found on the prompts just before this one. */
function earlierSuffixes(
  request: AuditRequest,
  folder: RunFolder,
  id: string,
  promptId: string,
  arm: ArmName,
): (readonly number[])[] {
  const index = request.prompts.findIndex((prompt) => prompt.id === promptId);
  const found = request.prompts.slice(0, index).flatMap((prompt) => {
    const data = folder.get(unitKey(id, prompt.id, arm)) as UnitData | undefined;
    return data !== undefined && 'result' in data ? [data.result.suffixIds] : [];
  });
  return found.filter(({ length }) => length > 0).slice(-inheritedStarts);
}

function collectPrompt(
  { folder, id }: DrafterAudit,
  prompt: Prompt,
  units: readonly string[],
  skipped: string | null,
): PromptResult {
  const data = units.flatMap((arm) => {
    const line = folder.get(unitKey(id, prompt.id, arm)) as UnitData | undefined;
    return line !== undefined && 'result' in line ? [{ arm, ...line }] : [];
  });
  const isRepeat = ({ arm }: { arm: string }): boolean => arm.includes('#');
  return {
    promptId: prompt.id,
    category: prompt.category ?? null,
    prompt: prompt.text,
    skipped,
    arms: data.filter((line) => !isRepeat(line)).map(({ result }) => result),
    traces: data.filter((line) => !isRepeat(line)).flatMap(({ trace }) => trace ?? []),
    repeats: data.filter(isRepeat).map(({ result }) => result.acceptance.meanAcceptedLength),
  };
}
