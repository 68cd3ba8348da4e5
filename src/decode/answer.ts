/**
 * Collects the tokens of an answer, streams their text, and ends at a stop token, a stop string or the max length.
 * A sequence pushes one token at a time, so an accepted path is cut at the token where plain decoding would
 * have ended.
 */
import { logSumExp, topIndices } from '../core/vector.js';
import type { ForwardOutput, ForwardResult } from '../model/forward.js';
import { createStopScanner, createTextStream } from '../text/text-stream.js';
import type { Tokenizer } from '../text/tokenizer/tokenizer.js';

/** Log probabilities of tokens under the target, before temperature, top-k and top-p. */
export interface TokenLikelihood {
  readonly logprob: number;
  readonly top: readonly { readonly id: number; readonly logprob: number }[];
}

export interface LikelihoodReader {
  readonly want: readonly ForwardOutput[];
  /** Of the token after a row; undefined if not requested. */
  read(result: Pick<ForwardResult, 'logits'>, row: number, id: number): TokenLikelihood | undefined;
}

const silent: LikelihoodReader = { want: [], read: () => undefined };

export function createLikelihoodReader(
  topCount: number | undefined,
  vocabularySize: number,
): LikelihoodReader {
  if (topCount === undefined) return silent;
  return {
    want: ['logits'],
    read: ({ logits }, row, id) =>
      scoreToken(logits!.subarray(row * vocabularySize, (row + 1) * vocabularySize), id, topCount),
  };
}

export function scoreToken(
  logits: Float32Array, // [vocabulary]
  id: number,
  topCount: number,
): TokenLikelihood {
  const base = logSumExp(logits);
  const top = Array.from(topIndices(logits, topCount), (index) => ({
    id: index,
    logprob: logits[index]! - base,
  }));
  return { logprob: logits[id]! - base, top };
}

/** Where a token came from: the target alone, an accepted draft, or the target's own token behind a draft. */
export type TokenOrigin = 'target' | 'accepted' | 'bonus';
export type FinishReason = 'stop' | 'stop-string' | 'length' | 'context' | 'aborted';

export interface TokenEvent {
  readonly id: number;
  readonly origin: TokenOrigin;
  /** Text that became certain with this token; not always the token's own. */
  readonly text: string;
  readonly likelihood?: TokenLikelihood | undefined;
}

export interface AnswerOptions {
  readonly maxNewTokens: number;
  readonly stopIds: readonly number[];
  readonly stopStrings?: readonly string[] | undefined;
  readonly tokenizer?: Tokenizer | undefined;
  readonly onToken?: ((event: TokenEvent) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

export class Answer {
  readonly tokenIds: number[] = [];
  readonly origins: TokenOrigin[] = [];
  private pieces = '';
  private reason: FinishReason | undefined;
  private readonly stopIds: ReadonlySet<number>;
  private readonly stream;
  private readonly scanner;

  constructor(
    promptIds: readonly number[],
    private readonly options: AnswerOptions,
  ) {
    this.stopIds = new Set(options.stopIds);
    this.stream =
      options.tokenizer === undefined ? undefined : createTextStream(options.tokenizer, promptIds);
    this.scanner = createStopScanner(options.stopStrings ?? []);
  }

  get text(): string {
    return this.pieces;
  }

  get finishReason(): FinishReason | undefined {
    return this.reason;
  }

  get stopString(): string | undefined {
    return this.scanner.matched();
  }

  get remaining(): number {
    return this.options.maxNewTokens - this.tokenIds.length;
  }

  /** False once the answer has ended. */
  push(id: number, origin: TokenOrigin, likelihood?: TokenLikelihood): boolean {
    if (this.reason !== undefined) return false;
    this.tokenIds.push(id);
    this.origins.push(origin);
    if (this.stopIds.has(id)) this.reason = 'stop';
    const scanned = this.scanner.push(this.stream?.push(id) ?? '');
    if (scanned.stopped) this.reason = 'stop-string';
    else if (this.reason === undefined && this.remaining <= 0) this.reason = 'length';
    else if (this.reason === undefined && this.options.signal?.aborted === true) this.reason = 'aborted';
    const held = this.reason === undefined || scanned.stopped ? '' : this.takeHeldBack();
    const text = scanned.emit + held;
    this.pieces += text;
    this.options.onToken?.({ id, origin, text, likelihood });
    return this.reason === undefined;
  }

  /** Ends an answer that no token ended. */
  end(reason: FinishReason): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    const text = this.takeHeldBack();
    this.pieces += text;
    const last = this.tokenIds.length - 1;
    if (text !== '')
      this.options.onToken?.({ id: this.tokenIds[last] ?? -1, origin: this.origins[last] ?? 'target', text });
  }

  private takeHeldBack(): string {
    const scanned = this.scanner.push(this.stream?.finish() ?? '');
    return scanned.emit + (scanned.stopped ? '' : this.scanner.finish());
  }
}
