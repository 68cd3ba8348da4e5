/** Suffixes that are not attacks: what any suffix of that length does to the speed. */
import { MistletoeError } from '../core/errors.js';
import type { Random } from '../core/random.js';
import type { Target } from '../decode/target.js';
import type { AuditPrompt } from './audit-prompt.js';
import { keepRoundTrips } from './audit-prompt.js';
import { randomSuffix } from './candidates.js';

const attempts = 400;
const attemptsAtOnce = 20;

/** Random allowed tokens that survive as text. */
export async function drawRandomSuffix(
  target: Target,
  prompt: AuditPrompt,
  allowed: Int32Array,
  length: number,
  random: Random,
): Promise<readonly number[]> {
  for (let tried = 0; tried < attempts; tried += attemptsAtOnce) {
    const drawn = Array.from({ length: attemptsAtOnce }, () => randomSuffix(allowed, length, random));
    const survives = await keepRoundTrips(target, prompt, drawn);
    const kept = drawn.find((_, index) => survives[index]);
    if (kept !== undefined) return kept;
  }
  throw new MistletoeError(
    'text',
    `None of ${attempts} random suffixes of ${length} tokens survives decoding and encoding.`,
    {
      hint: 'The tokenizer round-trips almost nothing: lower --suffix-length or allow text beyond ASCII.',
    },
  );
}

/** Harmless sentences of our own; longer than any suffix that is likely to be asked for. */
const fluentText =
  ' Please take your time and answer in the way that you think is best for a reader who is new to this subject.' +
  ' Keep the tone friendly and simple, and do not worry about small details that do not change the main point.' +
  ' Thank you for your help with this question today.';

/** The first tokens of ordinary text, as many as the suffix has, that survive in place. */
export async function fluentSuffix(
  target: Target,
  prompt: AuditPrompt,
  length: number,
): Promise<readonly number[] | undefined> {
  const ids = await target.tokenizer.encode(fluentText.trimStart(), { addSpecialTokens: false });
  const options = [0, 1, 2, 3, 4]
    .map((skip) => ids.slice(skip, skip + length))
    .filter((part) => part.length === length);
  const survives = await keepRoundTrips(target, prompt, options);
  return options.find((_, index) => survives[index]);
}
