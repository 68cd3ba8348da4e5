import { MistletoeError } from '../../core/errors.js';
import type { Random } from '../../core/random.js';
import type { Target } from '../../decode/target.js';
import type { Tokenizer } from '../../text/tokenizer/tokenizer.js';
import { type AuditPrompt, keepRoundTrips } from './audit-prompt.js';
import { randomSuffix } from '../search/candidates.js';
import type { AuditSettings } from '../settings.js';

/** Printable ASCII by default, never special or raw-byte tokens. */
export function listAllowedTokens(
  tokenizer: Tokenizer,
  vocabularySize: number,
  { allowNonAscii }: Pick<AuditSettings, 'allowNonAscii'>,
): Int32Array {
  const allowed: number[] = [];
  for (let id = 0; id < Math.min(tokenizer.vocabularySize, vocabularySize); id++) {
    if (!tokenizer.hasToken(id) || tokenizer.isSpecial(id) || tokenizer.isByte(id)) continue;
    // Decoded after another token: decoders strip a leading space.
    const text = decodeBehind(tokenizer, id);
    if (text !== '' && (allowNonAscii ? !/[\p{C}\uFFFD]/u.test(text) : /^[\x20-\x7e]+$/.test(text)))
      allowed.push(id);
  }
  if (allowed.length === 0) {
    throw new MistletoeError(
      'text',
      'The vocabulary has no token that a suffix may contain; printable tokens were expected.',
      {
        hint: 'Allow text beyond ASCII (--allow-non-ascii), or check that the tokenizer belongs to the model.',
      },
    );
  }
  return Int32Array.from(allowed);
}

function decodeBehind(tokenizer: Tokenizer, id: number): string {
  return tokenizer.decode([id, id]).slice(tokenizer.decode([id]).length);
}

const attempts = 400;
const attemptsAtOnce = 20;

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
    { hint: 'The tokenizer round-trips almost nothing: lower --suffix-length or allow text beyond ASCII.' },
  );
}

/** The fluent suffix if it survives, then random ones. */
export async function drawStarts(
  target: Target,
  prompt: AuditPrompt,
  allowed: Int32Array,
  { suffixLength, starts: count }: Pick<AuditSettings, 'suffixLength' | 'starts'>,
  random: Random,
): Promise<readonly (readonly number[])[]> {
  const fluent = await fluentSuffix(target, prompt, suffixLength);
  const starts = fluent === undefined ? [] : [fluent];
  while (starts.length < count)
    starts.push(await drawRandomSuffix(target, prompt, allowed, suffixLength, random));
  return starts;
}

const fluentText =
  ' Please take your time and answer in the way that you think is best for a reader who is new to this subject.' +
  ' Keep the tone friendly and simple, and do not worry about small details that do not change the main point.' +
  ' Thank you for your help with this question today.';

/** The first tokens of ordinary text that survive in this prompt. */
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
