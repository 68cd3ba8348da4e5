/**
 * The texts that a round of hardening adds: prompts with suffixes, and what the target answers to them. They lie in
 * suffixes.jsonl of the round, a line a prompt, so that a killed round asks for none of them twice.
 */
import { z } from 'zod';
import { cutToLines, parseLine, readLines } from '../audit/json-lines.js';
import { appendText } from '../audit/run-writes.js';
import { Engine } from '../decode/engine.js';
import { decodePlain } from '../decode/plain.js';
import { sequenceBytes } from '../decode/sequence-bytes.js';
import type { Target } from '../decode/target.js';
import type { Prompt } from '../text/prompt-set.js';
import type { Example } from './examples.js';
import type { HardeningSettings } from './hardening-settings.js';
import { searchSettings } from './hardening-settings.js';
import type { SuffixHunt } from './suffix-hunt.js';

const ids = z.array(z.int().nonnegative());
const lineSchema = z.strictObject({
  prompt: z.string(),
  objective: z.string(),
  suffixLength: z.int(),
  /** Empty where the prompt could not be searched, or nothing was found. */
  texts: z.array(z.strictObject({ promptIds: ids, answerIds: ids, length: z.number().nullable() })),
});
export type SuffixedPrompt = z.infer<typeof lineSchema>;

export interface HuntRound {
  readonly target: Target;
  readonly hunt: SuffixHunt;
  readonly prompts: readonly Prompt[];
  readonly settings: HardeningSettings;
  /** From 0. */
  readonly round: number;
  readonly file: string;
  readonly maxNewTokens: number;
  readonly signal?: AbortSignal | undefined;
  readonly onPrompt?: ((found: SuffixedPrompt, done: number, total: number) => void) | undefined;
}

export async function huntSuffixes(work: HuntRound): Promise<readonly SuffixedPrompt[]> {
  const { hunt, prompts, settings, round, file, signal } = work;
  const found = readFound(file);
  for (let place = found.length; place < prompts.length; place++) {
    signal?.throwIfAborted();
    const prompt = prompts[place]!;
    const search = searchSettings(settings, round, place);
    const hunted = await hunt.hunt(prompt, {
      ...{ settings: search, seed: settings.seed, name: `round ${round} ${prompt.id}`, signal },
      ...{ count: settings.suffixesPerPrompt, kind: settings.source },
    });
    const { objective, suffixLength } = search;
    const answers = await answerAll(work, hunted?.promptIds ?? []);
    const texts = answers.map((answerIds, index) => ({
      ...{ promptIds: [...hunted!.promptIds[index]!], answerIds: [...answerIds] },
      length: hunted!.lengths[index]!,
    }));
    const line: SuffixedPrompt = { prompt: prompt.id, objective, suffixLength, texts };
    appendText(file, `${JSON.stringify(line)}\n`, { durable: true, command: 'harden' });
    found.push(line);
    work.onPrompt?.(line, found.length, prompts.length);
  }
  return found;
}

function readFound(file: string): SuffixedPrompt[] {
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

/** What the target itself says behind each of them, greedily. */
function answerAll(
  { target, maxNewTokens, settings, signal }: HuntRound,
  prompts: readonly (readonly number[])[],
): Promise<readonly (readonly number[])[]> {
  const engine = new Engine({ concurrency: Math.max(1, prompts.length) });
  const { model, stopIds, tokenizer } = target;
  return Promise.all(
    prompts.map(async (promptIds) => {
      const request = {
        ...{ promptIds, maxNewTokens, sampling: { temperature: 0 }, seed: settings.seed },
        ...{ stopIds, tokenizer, ...(signal === undefined ? {} : { signal }) },
      };
      const bytes = sequenceBytes(request, model);
      const { tokenIds } = await engine.run((meeting) => decodePlain(model, { ...request, meeting }), {
        bytes,
        signal,
      });
      return tokenIds;
    }),
  );
}

/** As texts to learn from; prompts are read only. */
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

/** Clean and suffixed texts in the wanted share, each of the fewer kind as often as it takes. */
export function mixExamples(
  clean: readonly Example[],
  suffixed: readonly Example[],
  suffixedShare: number,
): readonly Example[] {
  if (suffixed.length === 0 || suffixedShare === 0) return clean;
  if (suffixedShare === 1) return suffixed;
  const wanted = (suffixedShare / (1 - suffixedShare)) * clean.length;
  const copies = Math.max(1, Math.round(wanted / suffixed.length));
  const repeated = Array.from({ length: copies }, (_, copy) =>
    suffixed.map((example) => (copy === 0 ? example : { ...example, id: `${example.id} x${copy + 1}` })),
  );
  return [...clean, ...repeated.flat()];
}
