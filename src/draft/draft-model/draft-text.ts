/**
 * The text so far in the tokens of a draft model with a tokenizer of its own, and its drafts in the target's tokens.
 * Only the end of a text is encoded again: tokens before it stay, and with them the rows of the draft model's cache.
 * Nothing here decides what is accepted. A text that is encoded in an unusual way costs accepted tokens, not exactness.
 */
import {
  countUnfinished,
  isContinuation,
  placeTokens,
  toBytes,
  toText,
  type ByteText,
  type TokenBytes,
} from '../../text/tokenizer/token-bytes.js';

/** Tokens at the end of a known text that are encoded again with what follows. */
const tailTokens = 16;
/** The first tokens of an encoded tail may differ from those in the middle of a text. */
const unsureTokens = 4;

export class DraftText {
  /** What the draft model reads, without an unfinished character at the end. */
  private bytes: ByteText = '';
  private unfinished: ByteText = '';
  private encodedLength = 0;
  private ids: readonly number[] = [];
  /** [token] Undefined if the tokens do not spell the text. */
  private ends: readonly number[] | undefined = [];

  /** `start`: tokens in front of every text (findStart). */
  constructor(
    private readonly target: TokenBytes,
    private readonly draft: TokenBytes,
    private readonly start: readonly number[],
  ) {}

  /** Adds a token of the target. */
  push(token: number): void {
    const all = this.unfinished + this.spell(token);
    const cut = all.length - countUnfinished(all);
    this.bytes += toBytes(toText(all.slice(0, cut)));
    this.unfinished = all.slice(cut);
  }

  /** All tokens of the text, at least one; `missing`: bytes of an unfinished character that no token can hold. */
  async encode() {
    if (this.encodedLength < this.bytes.length) {
      if (!(await this.encodeTail())) await this.encodeAll();
      this.encodedLength = this.bytes.length;
    }
    const begun = this.draft.cover(this.unfinished);
    return {
      tokens: [...this.start, ...this.ids, ...(begun ?? [])],
      missing: begun === undefined ? this.unfinished : '',
    };
  }

  private spell(token: number): ByteText {
    const { tokenizer } = this.target;
    const own = this.draft.tokenizer;
    if (token === tokenizer.bosId) return '';
    if (token === tokenizer.eosId) return own.eosId === undefined ? '' : this.draft.of(own.eosId);
    const bytes = this.target.of(token);
    // Decoders drop the blank that encoders put in front of a text.
    const isFirst = this.bytes === '' && this.unfinished === '' && bytes.startsWith(' ');
    return isFirst && !tokenizer.decode([token]).startsWith(' ') ? bytes.slice(1) : bytes;
  }

  private async encodeAll(): Promise<void> {
    this.ids = await encodePlainly(this.draft, this.bytes);
    this.ends = placeTokens(this.ids, this.draft, this.bytes);
  }

  /** False if all has to be encoded again. */
  private async encodeTail(): Promise<boolean> {
    const { ids, ends, bytes } = this;
    if (ends === undefined) return false;
    let kept = ids.length - tailTokens;
    while (kept > 0 && isContinuation(bytes.charCodeAt(ends[kept - 1]!))) kept -= 1;
    if (kept <= 0) return false;
    const start = ends[kept - 1]!;
    const tail = await encodePlainly(this.draft, bytes.slice(start));
    const tailEnds = placeTokens(tail, this.draft, bytes.slice(start))?.map((end) => start + end);
    if (tailEnds === undefined) return false;
    const known = new Map(ends.map((end, index) => [end, index + 1]));
    const joint = tailEnds.findIndex((end, index) => index >= unsureTokens && known.has(end));
    if (joint < 0) return false;
    const before = known.get(tailEnds[joint]!)!;
    this.ids = [...ids.slice(0, before), ...tail.slice(joint + 1)];
    this.ends = [...ends.slice(0, before), ...tailEnds.slice(joint + 1)];
    return true;
  }
}

const encodePlainly = ({ tokenizer }: TokenBytes, bytes: ByteText): Promise<number[]> =>
  tokenizer.encode(toText(bytes), { addSpecialTokens: false });

/** What its tokenizer puts in front of a text; an empty text begins with some token, too. */
export async function findStart({ tokenizer }: TokenBytes): Promise<readonly number[]> {
  const { bosId, eosId } = tokenizer;
  return bosId !== undefined && (await tokenizer.encode('')).includes(bosId) ? [bosId] : [eosId ?? 0];
}

/**
 * A drafted text in tokens of the target. It is encoded with the end of the text before it, so that it is cut as the
 * target would cut it. The last token is dropped unless the text ends there: more text could make it longer.
 */
export async function encodeDraft(
  target: TokenBytes,
  before: readonly number[],
  drafted: ByteText,
  isEnd: boolean,
): Promise<readonly number[]> {
  const context = spellTail(target, before);
  const text = context + drafted;
  const bytes = text.slice(0, text.length - countUnfinished(text));
  if (bytes.length <= context.length) return [];
  const tokens = await cutContext(target, context, bytes);
  const whole = isEnd || tokens.length < 2 ? tokens : tokens.slice(0, -1);
  const unknown = whole.findIndex((token) => token >= target.size);
  return unknown < 0 ? whole : whole.slice(0, unknown);
}

/** Without special tokens, and from the beginning of a character. */
function spellTail(target: TokenBytes, before: readonly number[]): ByteText {
  const tail = before.slice(-tailTokens);
  const special = tail.findLastIndex((token) => target.tokenizer.isSpecial(token));
  const bytes = tail
    .slice(special + 1)
    .map((token) => target.of(token))
    .join('');
  let start = 0;
  while (start < bytes.length && isContinuation(bytes.charCodeAt(start))) start += 1;
  return bytes.slice(start);
}

/** The tokens behind the context. */
async function cutContext(
  target: TokenBytes,
  context: ByteText,
  bytes: ByteText,
): Promise<readonly number[]> {
  const ids = await encodePlainly(target, bytes);
  const ends = placeTokens(ids, target, bytes);
  if (ends === undefined) {
    // The tokenizer normalizes: those behind the tokens of the context alone.
    const before = await encodePlainly(target, context);
    return before.every((token, index) => ids[index] === token) ? ids.slice(before.length) : [];
  }
  const seam = context.length;
  const first = ends.findIndex((end) => end > seam);
  if ((ends[first - 1] ?? 0) >= seam) return ids.slice(first);
  // A token across the seam is replaced by tokens of the part that is new.
  const rest = target.cover(bytes.slice(seam, ends[first]));
  return rest === undefined ? [] : [...rest, ...ids.slice(first + 1)];
}
