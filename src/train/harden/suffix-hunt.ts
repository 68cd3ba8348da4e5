/**
 * Suffixes to train against: short audit searches, prompt by prompt, against the current drafter. All suffixes that a
 * search finds within its bounds are used. Random suffixes of the same lengths are the baseline.
 */
import { join } from 'node:path';
import { drawRandomSuffix, drawStarts, listAllowedTokens } from '../../audit/arms/controls.js';
import { preparePrompt, joinPrompt, type AuditPrompt } from '../../audit/arms/audit-prompt.js';
import { PassRows } from '../../audit/search/pass-rows.js';
import { readPromptState } from '../../audit/search/prompt-state.js';
import { Scorer } from '../../audit/search/scoring.js';
import { type SearchPrograms, compileAudit } from '../../audit/search/search-programs.js';
import { searchSuffix } from '../../audit/search/search.js';
import { type AuditSettings, attackSearch } from '../../audit/settings.js';
import { MistletoeError } from '../../core/errors.js';
import { createRandom } from '../../core/random.js';
import type { Target } from '../../decode/target.js';
import type { Drafter } from '../../draft/drafter.js';
import type { Prompt } from '../../text/prompts/prompt-set.js';
import type { RecordedDevice } from '../../runtime/device-choice.js';
import type { HardenRequest } from './harden-request.js';
import type { Baseline } from './hardening-settings.js';

export type SuffixSource = 'searched' | Baseline;

export interface HuntOptions {
  /** Objective and suffix length vary from prompt to prompt. */
  readonly settings: AuditSettings;
  readonly seed: number;
  readonly name: string;
  readonly count: number;
  readonly source: SuffixSource;
  readonly signal?: AbortSignal | undefined;
}

export interface HuntedPrompt {
  /** Null if there is a suffix. */
  readonly skipped: string | null;
  /** [suffix] The whole prompt. */
  readonly promptIds: readonly (readonly number[])[];
  /** [suffix] Accepted length along the clean answer; null for random suffixes. */
  readonly lengths: readonly (number | null)[];
}

export interface PromptHunt {
  hunt(prompt: Prompt, options: HuntOptions): Promise<HuntedPrompt>;
  dispose(): Promise<void>;
}

export class SuffixHunt implements PromptHunt {
  private readonly allowed = new Map<boolean, Int32Array>(); // [allowNonAscii]
  private readonly programs = new Map<string, SearchPrograms>(); // [objective and length]
  private readonly passRows: PassRows;

  constructor(
    private readonly target: Target,
    private readonly drafter: Drafter,
    private readonly levels: number,
  ) {
    this.passRows = new PassRows(target.model.runtime);
  }

  /** A prompt that cannot be searched is skipped. */
  async hunt(prompt: Prompt, options: HuntOptions): Promise<HuntedPrompt> {
    try {
      const prepared = await preparePrompt(this.target, prompt, { ...options.settings, seed: options.seed });
      return await (options.source === 'random'
        ? this.drawAll(prepared, options)
        : this.search(prepared, options));
    } catch (cause) {
      // The answer is too short, the prompt too long, or its tokens do not survive as text.
      const isExpected =
        cause instanceof MistletoeError && ['incomplete', 'context', 'text'].includes(cause.code);
      if (!isExpected) throw cause;
      return { skipped: cause.message, promptIds: [], lengths: [] };
    }
  }

  private async drawAll(
    prepared: AuditPrompt,
    { count, settings, seed, name, signal }: HuntOptions,
  ): Promise<HuntedPrompt> {
    const random = createRandom(seed, 'hunt', 'random', name);
    const promptIds: (readonly number[])[] = [];
    const allowed = this.allowedTokens(settings);
    while (promptIds.length < count) {
      const suffix = await drawRandomSuffix(this.target, prepared, allowed, settings.suffixLength, random);
      promptIds.push(joinPrompt(prepared, suffix));
    }
    signal?.throwIfAborted();
    return { skipped: null, promptIds, lengths: promptIds.map(() => null) };
  }

  private async search(
    prepared: AuditPrompt,
    { count, settings, seed, name, signal }: HuntOptions,
  ): Promise<HuntedPrompt> {
    const allowed = this.allowedTokens(settings);
    const starting = createRandom(seed, 'hunt', 'starts', name);
    const starts = await drawStarts(this.target, prepared, allowed, settings, starting);
    const models = { target: this.target.model, drafter: this.drafter };
    const state = await readPromptState(models, prepared.beforeIds);
    const scorer = new Scorer(this.target, models, this.compile(settings), prepared, state, this.passRows);
    const { finalists } = await searchSuffix(
      { scorer, starts, random: createRandom(seed, 'hunt', 'search', name), allowed, signal },
      attackSearch(settings),
    ).finally(() => {
      scorer.dispose();
    });
    const kept = finalists.slice(0, count);
    return {
      skipped: kept.length === 0 ? 'The search found no suffix inside its bounds.' : null,
      promptIds: kept.map(({ suffixIds }) => joinPrompt(prepared, suffixIds)),
      lengths: kept.map(({ length }) => length),
    };
  }

  async dispose(): Promise<void> {
    for (const programs of this.programs.values()) await programs.dispose();
  }

  private allowedTokens({ allowNonAscii }: AuditSettings): Int32Array {
    const { tokenizer, model } = this.target;
    const known = this.allowed.get(allowNonAscii);
    const listed =
      known ?? listAllowedTokens(tokenizer, model.configuration.vocabularySize, { allowNonAscii });
    this.allowed.set(allowNonAscii, listed);
    return listed;
  }

  private compile(settings: AuditSettings): SearchPrograms {
    const key = `${settings.objective} ${settings.suffixLength}`;
    const known = this.programs.get(key);
    if (known !== undefined) return known;
    const models = { target: this.target.model, drafter: this.drafter };
    const programs = compileAudit(models, settings, this.levels);
    this.programs.set(key, programs);
    return programs;
  }
}

/** What a worker of a hardening run is started with. */
export interface HuntSetup {
  readonly request: HardenRequest;
  readonly folder: string;
  readonly device: RecordedDevice;
  readonly threads: number;
  readonly cacheFolder: string | null;
  readonly verifyCache: boolean;
}

export const roundFolder = (folder: string, role: string, round: number): string =>
  join(folder, role, `round-${round}`);

/** The drafter that a round, counted from 0, attacks: that of the round before. */
export function attackedDrafter(
  request: HardenRequest,
  folder: string,
  source: SuffixSource,
  round: number,
): string {
  const role = source === 'searched' ? 'hardened' : source;
  return round === 0 ? request.from.folder : join(roundFolder(folder, role, round), 'last');
}
