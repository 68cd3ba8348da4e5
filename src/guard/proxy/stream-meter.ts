/**
 * Counts the chunks of a streamed response, per choice. vLLM, SGLang, TensorRT-LLM and our server send the tokens of one
 * step as one chunk, so tokens per chunk are the accepted length; llama.cpp and TGI send every token by itself. The first
 * chunk of a choice comes from the prompt's own pass. Servers that join steps (a stream interval above 1, a tool parser
 * that holds text back) make lengths look longer.
 */
import type { EngineAdapter } from '../engines/adapter.js';
import { type JsonObject, asCount, asList, asObject } from '../engines/claim.js';
import type { Speculation } from '../observation.js';

const maxChoices = 128;
const minSteps = 3;

export class StreamMeter {
  /** Chunks with text. */
  chunks = 0;
  private readonly choices = new Set<number>();
  private textLength = 0; // of servers that repeat the whole text
  private listedTokens: number | null = 0;

  add(body: JsonObject): void {
    const choices = asList(body.choices)
      ?.slice(0, maxChoices)
      .map((choice) => asObject(choice) ?? {});
    if (choices === undefined) this.count(0, this.measureOther(body), listedIn(body));
    for (const choice of choices ?? [])
      this.count(asCount(choice.index) ?? 0, measureChoice(choice), listedIn(choice));
  }

  /** @param chunk what a chunk is for this engine, if known */
  estimate(chunk: EngineAdapter['chunk'], completionTokens: number | null): Speculation | null {
    const tokens = completionTokens ?? this.listedTokens;
    const steps = this.chunks - this.choices.size;
    if (chunk === 'token' || tokens === null || steps < minSteps) return null;
    return {
      ...{ evidence: chunk === 'step' ? 'derived' : 'estimated', steps, isTree: false },
      accepted: Math.max(0, tokens - this.chunks),
      ...{ proposed: null, histogram: null, perStepAccepted: null, perStepProposed: null, draftLength: null },
    };
  }

  private count(choice: number, characters: number, tokens: number | null): void {
    if (characters === 0) return;
    this.chunks++;
    if (this.choices.size < maxChoices) this.choices.add(choice);
    this.listedTokens = this.listedTokens === null || tokens === null ? null : this.listedTokens + tokens;
  }

  private measureOther({ text, content, delta, token }: JsonObject): number {
    if (typeof content === 'string') return content.length; // llama.cpp
    if (typeof delta === 'string') return delta.length; // /v1/responses
    if (delta !== undefined) {
      const { text: added, thinking, partial_json: json } = asObject(delta) ?? {}; // /v1/messages
      return lengthOf(added) + lengthOf(thinking) + lengthOf(json);
    }
    if (token !== undefined) return lengthOf(asObject(token)?.text); // TGI
    if (typeof text !== 'string') return 0;
    const added = Math.max(0, text.length - this.textLength); // SGLang
    this.textLength = text.length;
    return added;
  }
}

const lengthOf = (value: unknown): number => (typeof value === 'string' ? value.length : 0);

/** UTF-16 units of text, reasoning, and arguments of tools. */
function measureChoice(choice: JsonObject): number {
  const delta = asObject(choice.delta);
  if (delta === undefined) return lengthOf(choice.text);
  const length = lengthOf(delta.content) + lengthOf(delta.reasoning_content ?? delta.reasoning);
  const calls = asList(delta.tool_calls)?.slice(0, 64) ?? [];
  return calls.reduce<number>(
    (sum, call) => sum + lengthOf(asObject(asObject(call)?.function)?.arguments),
    length,
  );
}

/** Tokens that are listed for another purpose: log-probabilities or ids. */
function listedIn(choice: JsonObject): number | null {
  const logprobs = asObject(choice.logprobs);
  for (const list of [logprobs?.content, logprobs?.tokens, choice.token_ids, choice.tokens]) {
    const { length } = asList(list) ?? [];
    if (length > 0) return length;
  }
  return null;
}
