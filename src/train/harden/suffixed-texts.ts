/**
 * The texts that a round adds: prompts with suffixes and the target's answers, one line per prompt in suffixes.jsonl,
 * so that a killed round repeats none of them.
 */
import { z } from 'zod';
import type { AuditSettings } from '../../audit/settings.js';
import { createRandom } from '../../core/random.js';
import { Engine, sequenceBytes } from '../../decode/engine/engine.js';
import { decodePlain } from '../../decode/plain.js';
import type { Target } from '../../decode/target.js';
import { cutToLines, parseLine, readLines } from '../../runs/json-lines.js';
import { appendText } from '../../runs/run-writes.js';
import { type UnitExecutor, driveUnits } from '../../runs/unit.js';
import type { Prompt } from '../../text/prompts/prompt-set.js';
import type { Example } from '../data/examples.js';
import { type HardeningSettings, searchSettings } from './hardening-settings.js';
import type { PromptHunt, SuffixSource } from './suffix-hunt.js';

const ids = z.array(z.int().nonnegative());
const lineSchema = z.strictObject({
  prompt: z.string(),
  objective: z.string(),
  suffixLength: z.int(),
  skipped: z.string().nullable(),
  texts: z.array(z.strictObject({ promptIds: ids, answerIds: ids, length: z.number().nullable() })),
  elapsedMs: z.number(),
});
export type SuffixedPrompt = z.infer<typeof lineSchema>;

/** Decides what is found for a prompt, beside target and drafter. */
export interface HuntSettings {
  readonly settings: HardeningSettings;
  readonly audit: AuditSettings;
  readonly source: SuffixSource;
  /** From 0. */
  readonly round: number;
  readonly maxNewTokens: number;
}

export interface HuntRound extends HuntSettings {
  readonly target: Target;
  /** Called once, only if prompts are left and there is no pool. */
  readonly openHunt: () => Promise<PromptHunt>;
  /** Workers that search several prompts at the same time. */
  readonly pool?: UnitExecutor<HuntInput> | undefined;
  readonly prompts: readonly Prompt[];
  readonly file: string;
  readonly signal?: AbortSignal | undefined;
  readonly onStart?: ((done: number, total: number) => void) | undefined;
  readonly onPrompt?: ((found: SuffixedPrompt, done: number, total: number) => void) | undefined;
}

/** The input of a unit: one prompt. Workers know the rest from their setup. */
export interface HuntInput {
  readonly source: SuffixSource;
  readonly round: number;
  readonly place: number;
  readonly prompt: Prompt;
}

export async function huntSuffixes(work: HuntRound): Promise<readonly SuffixedPrompt[]> {
  const found = readFound(work.file);
  work.onStart?.(found.length, work.prompts.length);
  if (found.length >= work.prompts.length) return found;
  if (work.pool !== undefined) {
    await huntRest(work, work.pool, found);
    return found;
  }
  const hunt = await work.openHunt();
  const executor: UnitExecutor<HuntInput> = {
    capacity: 1,
    async run({ key, input }, hooks) {
      const line = await huntPrompt(work, hunt, input);
      hooks.onPart({ key, data: line, steps: [], timing: null }, { name: '', pid: process.pid });
    },
    close: () => Promise.resolve(),
  };
  try {
    await huntRest(work, executor, found);
  } finally {
    await hunt.dispose();
  }
  return found;
}

/** Lines are written in the order of the prompts, whichever is finished first. */
async function huntRest(
  work: HuntRound,
  executor: UnitExecutor<HuntInput>,
  found: SuffixedPrompt[],
): Promise<void> {
  const { prompts, file, source, round, signal } = work;
  const ahead = new Map<number, SuffixedPrompt>();
  let next = found.length;
  const record = (place: number, line: SuffixedPrompt): void => {
    ahead.set(place, line);
    for (let own = ahead.get(found.length); own !== undefined; own = ahead.get(found.length)) {
      appendText(file, formatFound(own), { durable: true, command: 'harden' });
      found.push(own);
      work.onPrompt?.(own, found.length, prompts.length);
    }
  };
  await driveUnits<HuntInput>({
    executor,
    signal,
    schedule: {
      next() {
        if (next >= prompts.length) return undefined;
        const place = next++;
        const prompt = prompts[place]!;
        const key = `${source}/round-${round + 1}/${prompt.id}`;
        return { key, input: { source, round, place, prompt } };
      },
    },
    hooksOf: ({ input: { place } }) => ({
      onPart: ({ data }) => {
        record(place, lineSchema.parse(data));
      },
    }),
    onFailure: ({ input: { place, prompt } }, { message }) => {
      const { objective, suffixLength } = searchSettings(work.settings, work.audit, round, place);
      const skipped = `It failed: ${message}`;
      record(place, { prompt: prompt.id, objective, suffixLength, skipped, texts: [], elapsedMs: 0 });
    },
  });
}

export const formatFound = (line: SuffixedPrompt): string => `${JSON.stringify(line)}\n`;

/** Independent of the other prompts. */
export async function huntPrompt(
  work: HuntSettings & Pick<HuntRound, 'target' | 'signal'>,
  hunt: PromptHunt,
  { prompt, place }: Pick<HuntInput, 'prompt' | 'place'>,
): Promise<SuffixedPrompt> {
  const { settings, round, signal } = work;
  signal?.throwIfAborted();
  const began = performance.now();
  const search = searchSettings(settings, work.audit, round, place);
  const ask = (source: SuffixSource, count: number) =>
    hunt.hunt(prompt, {
      settings: search,
      seed: settings.seed,
      name: `round ${round} ${prompt.id}`,
      signal,
      count,
      source,
    });
  const { suffixesPerPrompt, randomPerPrompt } = settings;
  const asked = await ask(work.source, suffixesPerPrompt + (work.source === 'random' ? randomPerPrompt : 0));
  const isJoined = work.source === 'searched' && randomPerPrompt > 0 && asked.skipped === null;
  const drawn = isJoined ? await ask('random', randomPerPrompt) : undefined;
  const promptIds = [...asked.promptIds, ...(drawn?.promptIds ?? [])];
  const lengths = [...asked.lengths, ...(drawn?.lengths ?? [])];
  const answers = await answerAll(work, promptIds);
  // An aborted answer ends early and looks like a short one.
  signal?.throwIfAborted();
  const texts = answers.map((answerIds, index) => ({
    promptIds: [...promptIds[index]!],
    answerIds: [...answerIds],
    length: lengths[index]!,
  }));
  const { objective, suffixLength } = search;
  const { skipped } = asked;
  const elapsedMs = performance.now() - began;
  return { prompt: prompt.id, objective, suffixLength, skipped, texts, elapsedMs };
}

/** Prompts from the first invalid line on are searched again. */
export function readFound(file: string): SuffixedPrompt[] {
  const lines = readLines(file);
  const found: SuffixedPrompt[] = [];
  for (const line of lines) {
    const parsed = parseLine(line);
    const checked = 'value' in parsed ? lineSchema.safeParse(parsed.value) : undefined;
    if (checked?.success !== true) break;
    found.push(checked.data);
  }
  cutToLines(file, lines.slice(0, found.length));
  return found;
}

function answerAll(
  {
    target,
    maxNewTokens,
    settings,
    signal,
  }: Pick<HuntRound, 'target' | 'maxNewTokens' | 'settings' | 'signal'>,
  prompts: readonly (readonly number[])[],
): Promise<readonly (readonly number[])[]> {
  const engine = new Engine({ concurrency: Math.max(1, prompts.length) });
  const { model, stopIds, tokenizer } = target;
  const sampling = { temperature: 0 };
  const greedy = { maxNewTokens, sampling, seed: settings.seed, stopIds, tokenizer, signal };
  return Promise.all(
    prompts.map(async (promptIds) => {
      const request = { promptIds, ...greedy };
      const room = { bytes: sequenceBytes(request, model), signal };
      const { tokenIds } = await engine.run(
        (scheduler) => decodePlain(model, { ...request, scheduler }),
        room,
      );
      return tokenIds;
    }),
  );
}

export function createSuffixedExamples(
  found: readonly SuffixedPrompt[],
  { round, maxTokens }: { readonly round: number; readonly maxTokens: number },
): readonly Example[] {
  return found.flatMap(({ prompt, texts }) =>
    texts.flatMap(({ promptIds, answerIds }, index) => {
      const tokens = Int32Array.from([...promptIds, ...answerIds]).slice(0, maxTokens);
      const isLearnt = Uint8Array.from(tokens, (_, position) => +(position >= promptIds.length));
      const id = `${prompt}+suffix ${round + 1}.${index + 1}`;
      return tokens.length > promptIds.length ? [{ id, tokens, isLearnt, conversationId: id }] : [];
    }),
  );
}

export const recallRounds = (rounds: readonly (readonly Example[])[], count: number): readonly Example[] =>
  rounds.slice(-count).flat();

/** Repeats the smaller kind to reach the share. */
export function mixExamples(
  clean: readonly Example[],
  suffixed: readonly Example[],
  suffixedShare: number,
): readonly Example[] {
  if (suffixed.length === 0 || suffixedShare === 0) return clean;
  if (clean.length === 0 || suffixedShare === 1) return suffixed;
  const wanted = (suffixedShare / (1 - suffixedShare)) * clean.length;
  const copies = wanted / suffixed.length;
  return copies >= 1
    ? [...clean, ...repeatExamples(suffixed, Math.round(copies))]
    : [...repeatExamples(clean, Math.round(1 / copies)), ...suffixed];
}

function repeatExamples(examples: readonly Example[], copies: number): readonly Example[] {
  return Array.from({ length: copies }, (_, copy) =>
    examples.map((example) => (copy === 0 ? example : { ...example, id: `${example.id} x${copy + 1}` })),
  ).flat();
}

/**
 * Appends the suffixes of one question to other questions: searches are expensive, and a drafter should learn to
 * ignore stray tokens in any prompt. The example keeps the clean answer; the loss uses the target's own distribution,
 * whether or not the target would still give that answer.
 */
export function spreadSuffixes(
  found: readonly SuffixedPrompt[],
  clean: readonly Example[],
  { round, maxTokens, count, seed }: Readonly<Record<'round' | 'maxTokens' | 'count' | 'seed', number>>,
): readonly Example[] {
  const single = clean.filter(({ isLearnt }) => !isLearnt.subarray(isLearnt.indexOf(1)).includes(0));
  const byConversation = new Map(single.map((example) => [example.conversationId ?? example.id, example]));
  if (count === 0 || single.length === 0) return [];
  const random = createRandom(seed, 'spread suffixes', String(round));
  return found.flatMap(({ prompt, suffixLength, texts }) => {
    const own = byConversation.get(prompt);
    if (own === undefined) return [];
    return texts.flatMap(({ promptIds }, index) => {
      const behind = countShared(promptIds, promptOf(own));
      const end = promptIds.length - behind;
      const suffix = promptIds.slice(end - suffixLength, end);
      return Array.from({ length: count }, (_, copy): Example => {
        const host = single[random.nextInteger(single.length)]!;
        const place = promptOf(host).length - behind;
        const tokens = [...host.tokens.subarray(0, place), ...suffix, ...host.tokens.subarray(place)];
        const length = Math.min(tokens.length, maxTokens);
        const isLearnt = Uint8Array.from({ length }, (_, at) => +(at >= place + suffix.length + behind));
        const id = `${host.id}+suffix ${round + 1} of ${prompt} ${index + 1}.${copy + 1}`;
        return { id, tokens: Int32Array.from(tokens.slice(0, length)), isLearnt, conversationId: id };
      }).filter(({ isLearnt }) => isLearnt.includes(1));
    });
  });
}

const promptOf = ({ tokens, isLearnt }: Example): Int32Array => tokens.subarray(0, isLearnt.indexOf(1));

function countShared(left: ArrayLike<number>, right: ArrayLike<number>): number {
  let shared = 0;
  const most = Math.min(left.length, right.length);
  while (shared < most && left[left.length - 1 - shared] === right[right.length - 1 - shared]) shared += 1;
  return shared;
}
