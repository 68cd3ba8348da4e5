/** Combines what one pass brings to an answer into one message. */
import type { TokenSpelling } from '../../text/tokenizer/token-spelling.js';
import type { StepRecord } from '../acceptance.js';
import type { TokenEvent } from '../answer.js';
import type { AnswerProgress, SpelledLikelihood, WorkerTokenEvent } from './engine-messages.js';

/** Tokens of a pass arrive without an await between them, so a microtask marks the end of the pass. */
export class ProgressReport {
  private tokens: WorkerTokenEvent[] = [];
  private steps: StepRecord[] = [];

  constructor(
    private readonly send: (progress: AnswerProgress) => void,
    private readonly spell: (id: number) => TokenSpelling,
  ) {}

  readonly addToken = (event: TokenEvent): void => {
    this.plan();
    const { likelihood } = event;
    this.tokens.push({ ...event, likelihood: likelihood && this.spellLikelihood(event.id, likelihood) });
  };

  readonly addStep = ({ proposed, accepted, depth, drafter }: StepRecord): void => {
    this.plan();
    this.steps.push({ proposed, accepted, depth, drafter });
  };

  flush(): void {
    const { tokens, steps } = this;
    if (tokens.length === 0 && steps.length === 0) return;
    [this.tokens, this.steps] = [[], []];
    this.send({ tokens, steps });
  }

  private plan(): void {
    if (this.tokens.length > 0 || this.steps.length > 0) return;
    queueMicrotask(() => {
      this.flush();
    });
  }

  private spellLikelihood(id: number, likelihood: NonNullable<TokenEvent['likelihood']>): SpelledLikelihood {
    const spell = (token: number, logprob: number) => {
      const { text, bytes } = this.spell(token);
      return { id: token, text, bytes: bytes === null ? null : [...bytes], logprob };
    };
    const top = likelihood.top.map((other) => spell(other.id, other.logprob));
    return { ...spell(id, likelihood.logprob), top };
  }
}
