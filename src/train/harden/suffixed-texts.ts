/**
 * The texts that a round adds: prompts with suffixes and the target's answers, one line per prompt in suffixes.jsonl,
 * so that a killed round repeats none of them.
 */
import { createRandom } from '../../core/random.js';
import { readValidLines } from '../../runs/json-lines.js';
import { appendText } from '../../runs/run-writes.js';
import { type UnitExecutor, driveUnits } from '../../runs/unit.js';
import type { Prompt } from '../../text/prompts/prompt-set.js';
import type { Example } from '../data/examples.js';
import type { TrainedRole } from './hardening-result.js';
import { searchSettings } from './hardening-settings.js';
import type { HuntInput, HuntWork, SuffixedPrompt } from './suffix-hunt.js';
import { suffixedPromptSchema } from './suffix-hunt.js';

export interface HuntRound {
  readonly request: HuntWork['request'];
  readonly role: TrainedRole;
  /** From 0. */
  readonly round: number;
  readonly prompts: readonly Prompt[];
  readonly executor: UnitExecutor<HuntInput>;
  readonly file: string;
  readonly signal?: AbortSignal | undefined;
  readonly onStart?: ((done: number, total: number) => void) | undefined;
  readonly onPrompt?: ((found: SuffixedPrompt, done: number, total: number) => void) | undefined;
}

/** Lines are written in the order of the prompts, whichever is finished first. */
export async function huntSuffixes(work: HuntRound): Promise<readonly SuffixedPrompt[]> {
  const { request, role, round, prompts, executor, file, signal } = work;
  const found = readFound(file);
  work.onStart?.(found.length, prompts.length);
  const ahead = new Map<number, SuffixedPrompt>();
  let next = found.length;
  const record = (place: number, line: SuffixedPrompt): void => {
    ahead.set(place, line);
    for (let own = ahead.get(found.length); own !== undefined; own = ahead.get(found.length)) {
      appendText(file, `${JSON.stringify(own)}\n`, { durable: true, command: 'harden' });
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
        return { key: `${role}/round-${round + 1}/${prompt.id}`, input: { role, round, place, prompt } };
      },
    },
    hooksOf: ({ input: { place } }) => ({
      onPart: ({ data }) => {
        record(place, suffixedPromptSchema.parse(data));
      },
    }),
    onFailure: ({ input: { place, prompt } }, { message }) => {
      const { hardening, audit } = request;
      const { objective, suffixLength } = searchSettings(hardening, audit.settings, round, place);
      const skipped = `It failed: ${message}`;
      record(place, { prompt: prompt.id, objective, suffixLength, skipped, texts: [], elapsedMs: 0 });
    },
  });
  return found;
}

/** Runs hunts in this thread, one after another. */
export function huntHere(hunt: (input: HuntInput) => Promise<SuffixedPrompt>): UnitExecutor<HuntInput> {
  return {
    capacity: 1,
    async run({ key, input }, hooks) {
      const part = { key, data: await hunt(input), steps: [], timing: null };
      hooks.onPart(part, { name: '', pid: process.pid });
    },
    close: () => Promise.resolve(),
  };
}

/** Prompts from the first invalid line on are searched again. */
export const readFound = (file: string): SuffixedPrompt[] => readValidLines(file, suffixedPromptSchema);

export function createSuffixedExamples(
  found: readonly SuffixedPrompt[],
  { round, maxTokens }: { readonly round: number; readonly maxTokens: number },
): readonly Example[] {
  return found.flatMap(({ prompt, texts }) =>
    texts.flatMap(({ promptIds, answerIds }, index) => {
      const id = `${prompt}+suffix ${round + 1}.${index + 1}`;
      return cutExample(id, [...promptIds, ...answerIds], promptIds.length, maxTokens);
    }),
  );
}

/** None if the prompt fills it. */
function cutExample(
  id: string,
  tokens: readonly number[],
  promptLength: number,
  maxTokens: number,
): readonly Example[] {
  const kept = Int32Array.from(tokens.slice(0, maxTokens));
  if (kept.length <= promptLength) return [];
  const isLearnt = new Uint8Array(kept.length).fill(1, promptLength);
  return [{ id, tokens: kept, isLearnt, conversationId: id }];
}

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
      const copies = Array.from({ length: count }, (_, copy) => {
        const host = single[random.nextInteger(single.length)]!;
        const place = promptOf(host).length - behind;
        const tokens = [...host.tokens.subarray(0, place), ...suffix, ...host.tokens.subarray(place)];
        const id = `${host.id}+suffix ${round + 1} of ${prompt} ${index + 1}.${copy + 1}`;
        return cutExample(id, tokens, place + suffix.length + behind, maxTokens);
      });
      return copies.flat();
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
