/**
 * How unlikely the model finds the end of a prompt, where an engine tells: vLLM in `prompt_logprobs` (of a chat on the answer, of a
 * completion on its choice), SGLang's own route in `meta_info.input_token_logprobs`. Suffixes that are made to hurt a drafter are text
 * that nobody writes, and the tokens of such a text are unlikely one after the other. So are keys, dumps and languages that the model has
 * hardly seen: an unlikely end says why a request that rang may have, and never rings by itself. A number is kept, no text.
 */
import { findQuantiles } from './baseline-floors.js';
import { RecentMap } from './recent-map.js';
import type { PromptTail } from './request-record.js';
import type { JsonObject } from './engines/claim.js';
import { asList, asObject, onlyChoice } from './engines/claim.js';

/** Tokens of the end: a suffix of some twenty with the few of a chat's template behind it. */
const tailTokens = 32;
const leastTokens = 8;
/** Engines write -9999 for a token that cannot be; one of them must not be the whole mean. */
const mostSurprisal = 30;

/** Null where the body does not tell. */
export function findPromptTail(body: unknown): PromptTail | null {
  const answer = asObject(asList(body)?.[0] ?? body);
  if (answer === undefined) return null;
  const told = asList(answer.prompt_logprobs) ?? asList(onlyChoice(answer)?.prompt_logprobs);
  const native = asList(asObject(answer.meta_info)?.input_token_logprobs);
  if (told !== undefined) return summarise(told, readVllm);
  return native === undefined ? null : summarise(native, readSglang);
}

type ReadToken = (entry: unknown) => number | undefined;

function summarise(entries: readonly unknown[], read: ReadToken): PromptTail | null {
  let sum = 0;
  let tokens = 0;
  for (let at = entries.length - 1; at >= 0 && tokens < tailTokens; at--) {
    const logprob = read(entries[at]);
    // The first token is predicted by nothing.
    if (logprob === undefined && at === 0) break;
    if (logprob === undefined || !(logprob <= 1e-3)) return null;
    sum += Math.min(-logprob, mostSurprisal);
    tokens += 1;
  }
  return tokens < leastTokens ? null : { tokens, surprisal: Math.max(0, sum / tokens) };
}

/** {"1234": {"logprob": -1.5}}; with several tokens it is not said which of them is the prompt's. */
function readVllm(entry: unknown): number | undefined {
  const tokens = asObject(entry);
  const [only, second] = tokens === undefined ? [] : Object.values(tokens);
  return second === undefined ? asNumber(asObject(only)?.logprob) : undefined;
}

/** [-1.5, 1234, null] */
function readSglang(entry: unknown): number | undefined {
  return asNumber(asList(entry)?.[0]);
}

function asNumber(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

/** The fields that make an engine tell; those that the client has given are the client's. */
export function promptLogprobFields(engine: string, request: JsonObject): JsonObject {
  const isOurs = (...names: readonly string[]): boolean => names.every((name) => !(name in request));
  const isOpenAi = 'messages' in request || 'prompt' in request;
  // vLLM tells nothing of it in streams.
  if (engine === 'vllm' && isOpenAi && request.stream !== true && isOurs('prompt_logprobs'))
    return { prompt_logprobs: 0 };
  if (engine === 'sglang' && !isOpenAi && isOurs('return_logprob', 'logprob_start_len'))
    return { return_logprob: true, logprob_start_len: 0 };
  return {};
}

/** An end that is less likely than those of usual prompts. */
export interface UnlikelyTail {
  readonly surprisal: number;
  /** What nearly all usual prompts stay below. */
  readonly usual: number;
}

const mostModels = 64;
const mostUsual = 512;
const leastUsual = 100;
/** From the middle up, so many times as far as the upper quarter begins: whoever wants to move that needs a quarter of the traffic. */
const spread = 4;
/** Nats a token above that: where prompts are much alike, a little more is nothing. */
const margin = 1;

/** What prompts usually end with, by model. */
export class PromptTails {
  private models = new RecentMap<number[]>(mostModels);

  learnUsual(model: string, { surprisal }: PromptTail): void {
    const usual = this.models.getOrCreate(model, () => []);
    usual.push(surprisal);
    if (usual.length > mostUsual) usual.shift();
  }

  /** Undefined where it is a usual one, or too few are known. */
  findUnlikely(model: string, { surprisal }: PromptTail): UnlikelyTail | undefined {
    const known = this.models.peek(model) ?? [];
    if (known.length < leastUsual) return undefined;
    const values = known.map((value) => ({ value, weight: 1 }));
    const [median, quarter] = findQuantiles(values, [0.5, 0.75]);
    const usual = median! + spread * (quarter! - median!);
    return surprisal > usual + margin ? { surprisal, usual } : undefined;
  }

  forget(model: string): void {
    this.models.delete(model);
  }

  save(): readonly (readonly [string, readonly number[]])[] {
    return [...this.models.entries()].map(([model, usual]) => [model, [...usual]] as const);
  }

  restore(saved: readonly (readonly [string, readonly number[]])[]): void {
    this.models = new RecentMap(mostModels);
    for (const [model, usual] of saved) this.models.set(model, usual.slice(-mostUsual));
  }
}
