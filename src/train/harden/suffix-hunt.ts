/**
 * Suffixes to train against: short audit searches, prompt by prompt, against the current drafter. All suffixes that a
 * search finds within its bounds are used. Random suffixes of the same lengths are the baseline.
 */
import { join } from 'node:path';
import * as z from '../../core/schema.js';
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
import type { CacheOptions } from '../../checkpoint/cache/weight-cache.js';
import { Engine, sequenceBytes } from '../../decode/engine.js';
import { decodePlain } from '../../decode/generate.js';
import type { Target } from '../../decode/target.js';
import type { ReadingOptions } from '../../draft/draft-system.js';
import type { Drafter } from '../../draft/drafter.js';
import { loadDrafter } from '../../draft/systems.js';
import type { Prompt } from '../../text/prompts/prompt-set.js';
import type { HardenRequest } from './harden-request.js';
import type { TrainedRole } from './hardening-result.js';
import { type HardeningSettings, searchSettings } from './hardening-settings.js';

const ids = z.array(z.int().nonnegative());
/** What was found for one prompt: a line of suffixes.jsonl. */
export const suffixedPromptSchema = z.strictObject({
  prompt: z.string(),
  objective: z.string(),
  suffixLength: z.int(),
  /** Null if there is a suffix. */
  skipped: z.string().nullable(),
  /** Whole prompts; the accepted length along the clean answer is null for random suffixes. */
  texts: z.array(z.strictObject({ promptIds: ids, answerIds: ids, length: z.number().nullable() })),
  elapsedMs: z.number(),
});
export type SuffixedPrompt = z.infer<typeof suffixedPromptSchema>;

export interface HuntOptions {
  /** Objective and suffix length vary from prompt to prompt. */
  readonly settings: AuditSettings;
  readonly seed: number;
  readonly name: string;
  readonly count: number;
  readonly source: 'searched' | 'random';
  readonly signal?: AbortSignal | undefined;
}

type HuntedText = Omit<SuffixedPrompt['texts'][number], 'answerIds'>;

export class SuffixHunt {
  private allowed: Int32Array | undefined;
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
  async hunt(prompt: Prompt, options: HuntOptions) {
    const { settings, seed, source, signal } = options;
    try {
      const prepared = await preparePrompt(this.target, prompt, { ...settings, seed });
      const texts = await (source === 'random'
        ? this.drawAll(prepared, options)
        : this.search(prepared, options));
      // An interrupted search has found too little.
      signal?.throwIfAborted();
      const skipped = texts.length === 0 ? 'The search found no suffix inside its bounds.' : null;
      return { skipped, texts };
    } catch (cause) {
      // The answer is too short, the prompt too long, or its tokens do not survive as text.
      const isExpected =
        cause instanceof MistletoeError && ['incomplete', 'context', 'text'].includes(cause.code);
      if (!isExpected) throw cause;
      return { skipped: cause.message, texts: [] };
    }
  }

  private async drawAll(
    prepared: AuditPrompt,
    { count, settings, seed, name }: HuntOptions,
  ): Promise<HuntedText[]> {
    const random = createRandom(seed, 'hunt', 'random', name);
    const allowed = this.listAllowed(settings);
    const texts: HuntedText[] = [];
    while (texts.length < count) {
      const suffix = await drawRandomSuffix(this.target, prepared, allowed, settings.suffixLength, random);
      texts.push({ promptIds: joinPrompt(prepared, suffix), length: null });
    }
    return texts;
  }

  private async search(
    prepared: AuditPrompt,
    { count, settings, seed, name, signal }: HuntOptions,
  ): Promise<HuntedText[]> {
    const allowed = this.listAllowed(settings);
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
    return finalists.slice(0, count).map(({ suffixIds, length }) => {
      return { promptIds: joinPrompt(prepared, suffixIds), length };
    });
  }

  async dispose(): Promise<void> {
    for (const programs of this.programs.values()) await programs.dispose();
  }

  private listAllowed({ allowNonAscii }: AuditSettings): Int32Array {
    const { tokenizer, model } = this.target;
    const { vocabularySize } = model.configuration;
    return (this.allowed ??= listAllowedTokens(tokenizer, vocabularySize, { allowNonAscii }));
  }

  private compile(settings: AuditSettings): SearchPrograms {
    const key = `${settings.objective} ${settings.suffixLength}`;
    const models = { target: this.target.model, drafter: this.drafter };
    const programs = this.programs.get(key) ?? compileAudit(models, settings, this.levels);
    this.programs.set(key, programs);
    return programs;
  }
}

/** The input of a unit: one prompt. Workers know the rest from their setup. */
export interface HuntInput {
  readonly role: TrainedRole;
  /** From 0. */
  readonly round: number;
  readonly place: number;
  readonly prompt: Prompt;
}

export interface HuntWork {
  readonly request: {
    readonly hardening: HardeningSettings;
    readonly audit: { readonly settings: AuditSettings };
    readonly training: { readonly maxNewTokens: number };
  };
  readonly target: Target;
  readonly signal?: AbortSignal | undefined;
}

/** Independent of the other prompts. */
export async function huntPrompt(
  { request, target, signal }: HuntWork,
  hunt: Pick<SuffixHunt, 'hunt'>,
  { role, round, place, prompt }: HuntInput,
): Promise<SuffixedPrompt> {
  signal?.throwIfAborted();
  const began = performance.now();
  const { suffixesPerPrompt, randomPerPrompt, seed } = request.hardening;
  const settings = searchSettings(request.hardening, request.audit.settings, round, place);
  const ask = (source: HuntOptions['source'], count: number) =>
    hunt.hunt(prompt, { settings, seed, name: `round ${round} ${prompt.id}`, signal, count, source });
  const isSearch = role === 'hardened';
  const { skipped, texts: asked } = isSearch
    ? await ask('searched', suffixesPerPrompt)
    : await ask('random', suffixesPerPrompt + randomPerPrompt);
  const isJoined = isSearch && randomPerPrompt > 0 && skipped === null;
  const joined = isJoined ? [...asked, ...(await ask('random', randomPerPrompt)).texts] : asked;
  const { model, stopIds, tokenizer } = target;
  const { maxNewTokens } = request.training;
  const sampling = { temperature: 0 };
  const engine = new Engine({ concurrency: Math.max(1, joined.length) });
  const texts = await Promise.all(
    joined.map(async ({ promptIds, length }) => {
      const answering = { promptIds, maxNewTokens, sampling, seed, stopIds, tokenizer, signal };
      const room = { bytes: sequenceBytes(answering, model), signal };
      const { tokenIds } = await engine.run(() => decodePlain(model, { ...answering, engine }), room);
      return { promptIds, answerIds: [...tokenIds], length };
    }),
  );
  // An aborted answer ends early and looks like a short one.
  signal?.throwIfAborted();
  const { objective, suffixLength } = settings;
  const elapsedMs = performance.now() - began;
  return { prompt: prompt.id, objective, suffixLength, skipped, texts, elapsedMs };
}

/** Attacks the drafter of a prompt's round, which it keeps open for the next prompt. */
export class HuntWorker {
  private opened: { readonly drafter: string; readonly hunt: SuffixHunt } | undefined;

  constructor(
    private readonly request: HardenRequest,
    private readonly folder: string,
    private readonly target: Target,
    private readonly cache: CacheOptions & ReadingOptions,
  ) {}

  async open({ role, round }: HuntInput): Promise<SuffixHunt> {
    const { request, folder, target, cache } = this;
    const drafter = attackedDrafter(request, folder, role, round);
    if (this.opened?.drafter !== drafter) {
      await this.dispose();
      const { model, tokenizer } = target;
      const loaded = await loadDrafter(drafter, { target: model, tokenizer, ...cache });
      this.opened = { drafter, hunt: new SuffixHunt(target, loaded, request.training.chain) };
    }
    return this.opened.hunt;
  }

  async run(input: HuntInput, signal?: AbortSignal): Promise<SuffixedPrompt> {
    const { request, target } = this;
    return huntPrompt({ request, target, signal }, await this.open(input), input);
  }

  async dispose(): Promise<void> {
    await this.opened?.hunt.dispose();
    this.opened = undefined;
  }
}

export const roundFolder = (folder: string, role: TrainedRole, round: number): string =>
  join(folder, role, `round-${round}`);

/** The drafter that a round, counted from 0, attacks: that of the round before. */
export const attackedDrafter = (
  request: HardenRequest,
  folder: string,
  role: TrainedRole,
  round: number,
): string => (round === 0 ? request.from.folder : join(roundFolder(folder, role, round), 'last'));
