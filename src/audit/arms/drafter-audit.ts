/** Audits a drafter on a prompt, arm by arm. */
import { MistletoeError } from '../../core/errors.js';
import { lazily } from '../../core/promises.js';
import type { PolicyChooser } from '../../decode/policies/policy-chooser.js';
import type { Target } from '../../decode/target.js';
import type { Drafter } from '../../draft/drafter.js';
import { findAddedMarkers } from '../../text/template/chat-template.js';
import type { UnitData, UnitName } from '../units/audit-unit.js';
import { type AuditPrompt, encodeSuffix, preparePrompt } from './audit-prompt.js';
import type { AuditRequest } from '../audit-request.js';
import { type ArmTiming, PhaseClock } from './phase-clock.js';
import { type RequestPrompt, givenFor, nameUnit } from './drafter-units.js';
import { type ArmKey, decodeFreely } from './measure-arm.js';
import type { PassRows } from '../search/pass-rows.js';
import { type PromptAudit, runArm } from './prompt-audit.js';
import { readPromptState } from '../search/prompt-state.js';
import type { TracePoint } from '../result.js';
import { Scorer } from '../search/scoring.js';
import type { SearchPrograms } from '../search/search-programs.js';

/** A drafter that is open, with its policy. */
export interface LoadedDrafter {
  readonly id: string;
  readonly drafter: Drafter;
  readonly policy: PolicyChooser;
  readonly draftLevels: number;
}

type UnitRequest = Pick<AuditRequest, 'settings' | 'seed' | 'prompts' | 'suffixes'>;

interface NamedFolder {
  readonly name: string;
  readonly folder: string;
}

/** A unit's request, with all that units share open. */
export interface DrafterAudit extends LoadedDrafter {
  readonly request: UnitRequest;
  readonly models: readonly NamedFolder[];
  readonly target: Target;
  readonly allowed: Int32Array;
  readonly passRows: PassRows;
  /** Compiled on first use. */
  readonly programs: () => SearchPrograms;
  readonly signal: AbortSignal | undefined;
  onStep(name: UnitName, point: TracePoint): void;
  onTiming(timing: ArmTiming): void;
  onNotice(message: string): void;
}

/** Below this mean accepted length, a drafter has nothing to lose. */
const minCleanLength = 1.05;

export async function auditArm(
  audit: DrafterAudit,
  prompt: RequestPrompt,
  key: ArmKey,
  prepare: () => Promise<PromptAudit>,
): Promise<UnitData> {
  try {
    const prepared = await prepare();
    const { value: outcome, times } = await prepared.clock.measure(() => runArm(prepared, key));
    if (outcome === undefined)
      return { skipped: `No ${key.arm} suffix of that length survives in this prompt.` };
    audit.onTiming({ drafter: audit.id, ...outcome.timing, phases: times });
    const { meanAcceptedLength } = outcome.result.sameAnswer;
    if (key.arm === 'clean' && meanAcceptedLength < minCleanLength) {
      return {
        skipped: `The drafter accepts almost nothing already (mean accepted length ${meanAcceptedLength.toFixed(2)}).`,
      };
    }
    return { result: outcome.result, trace: outcome.trace };
  } catch (cause) {
    const isExpected =
      cause instanceof MistletoeError && ['incomplete', 'context', 'text'].includes(cause.code);
    if (!isExpected) throw nameDrafter(cause, audit.id);
    audit.onNotice(`${prompt.id}: ${cause.message}${cause.hint === undefined ? '' : ` ${cause.hint}`}`);
    return { skipped: withoutFolders(cause.message, audit.models) };
  }
}

/** Reports name models, not folders on the author's machine. */
export function withoutFolders(sentence: string, models: readonly NamedFolder[]): string {
  return models.reduce((text, { name, folder }) => text.replaceAll(folder, name), sentence);
}

/** Errors of a drafter do not know its name in this audit. */
function nameDrafter(cause: unknown, id: string): unknown {
  if (!(cause instanceof MistletoeError) || cause.code !== 'drafter') return cause;
  const { code, message, hint } = cause;
  return new MistletoeError(code, `${id}: ${message}`, { cause, hint });
}

/** A drafter that runs out of context stops drafting, which would look like an attack. */
function requireRoom(
  { drafter, id, target, request: { settings } }: DrafterAudit,
  prompt: AuditPrompt,
): void {
  const { contextLength } = target.model.configuration;
  const prompted = prompt.beforeIds.length + settings.suffixLength + prompt.afterIds.length;
  const needed = Math.min(prompted + settings.maxNewTokens, contextLength);
  // The drafter never reads the last token of an answer.
  const session = drafter.startSession();
  const available = session.room + 1;
  session.close();
  if (needed <= available) return;
  throw new MistletoeError(
    'context',
    `The prompt with its suffix and answer needs ${needed} positions; the drafter ${id} has ${available}.`,
    { hint: 'Behind them it would not draft: lower --max-new-tokens, or take shorter prompts.' },
  );
}

export async function preparePromptAudit(audit: DrafterAudit, prompt: RequestPrompt): Promise<PromptAudit> {
  const { request, target, drafter, id, policy, allowed, passRows, signal } = audit;
  const { settings, seed } = request;
  const models = { target: target.model, drafter };
  const auditPrompt = await preparePrompt(target, prompt, { ...settings, seed });
  requireRoom(audit, auditPrompt);
  const programs = audit.programs();
  const given: (readonly number[])[] = [];
  for (const { text, place } of givenFor(request.suffixes, id, prompt.id)) {
    given.push(await encodeSuffix(target, auditPrompt, text, place));
    const { rendered } = auditPrompt;
    const [marker] = findAddedMarkers(rendered, text, rendered.markers ?? []);
    if (marker !== undefined) {
      audit.onNotice(
        `The suffix of ${place} contains the role marker "${marker}": it changes the conversation, not only the prompt.`,
      );
    }
  }
  const state = await readPromptState(models, auditPrompt.beforeIds);
  const clock = new PhaseClock(target.model.runtime);
  const setup = { target, drafter, policy, prompt: auditPrompt, settings, seed, clock };
  return {
    ...setup,
    scorer: new Scorer(target, models, programs, auditPrompt, state, passRows),
    clean: lazily(() => decodeFreely(setup, [])),
    allowed,
    unit: `${id}/${prompt.id}`,
    given,
    onStep: (key, point) => {
      audit.onStep(nameUnit(id, prompt.id, key), point);
    },
    signal,
  };
}
