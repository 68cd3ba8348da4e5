/**
 * What one event of a streamed answer carries: how much text, how many tokens where that can be counted, and what the engine
 * has told since its last word. Whether a chunk is a step depends on the engine: vLLM, SGLang and TensorRT-LLM send what a
 * step has given as one chunk, llama.cpp sends every token by itself, and any of them may join several.
 */
import type { Speculation } from './request-record.js';
import type { JsonObject } from './engines/claim.js';
import { asCount, asList, asObject } from './engines/claim.js';

export interface StreamChunk {
  readonly atMs: number;
  /** Of text, reasoning and arguments of tools; UTF-16 units. */
  readonly characters: number;
  /** Null where the engine gives nothing to count. */
  readonly tokens: number | null;
  /** Steps since the engine's last word; an engine that tells only at its end tells everything there, text or not. */
  readonly told: ToldSteps | null;
}

export interface ToldSteps {
  readonly steps: number;
  readonly accepted: number;
  readonly proposed: number | null;
}

export interface ChunkMeter {
  /** Undefined where an event carries neither text nor telemetry. */
  measure(body: JsonObject, speculation: Speculation | null, atMs: number): StreamChunk | undefined;
  /** An event told of a second choice: chunks cannot be told apart. */
  readonly hasSeveralChoices: boolean;
}

export function createChunkMeter(): ChunkMeter {
  let hasSeveralChoices = false;
  let textSoFar = 0; // of servers that repeat the whole text
  let tokensSoFar = 0;
  let isCounting = true; // until a chunk of text comes without a running count
  let before: Speculation | undefined;

  const countCharacters = (body: JsonObject): number => {
    const choices = asList(body.choices);
    if (choices === undefined) {
      const { text, content } = body;
      if (typeof content === 'string') return content.length;
      if (typeof text !== 'string') return 0;
      const added = Math.max(0, text.length - textSoFar);
      textSoFar = text.length;
      return added;
    }
    let characters = 0;
    for (const each of choices.slice(0, 2)) {
      const choice = asObject(each);
      if (choice === undefined) continue;
      characters += countChoice(choice);
      if (choice.index !== undefined && choice.index !== 0) hasSeveralChoices = true;
    }
    if (choices.length > 1) hasSeveralChoices = true;
    return characters;
  };

  const countTokens = (body: JsonObject, characters: number): number | null => {
    const running =
      asCount(asObject(body.meta_info)?.completion_tokens) ??
      asCount(asObject(body.usage)?.completion_tokens);
    if (running === undefined) {
      if (characters > 0) isCounting = false;
    } else if (isCounting && running >= tokensSoFar) {
      const added = running - tokensSoFar;
      tokensSoFar = running;
      return added;
    }
    return countListed(body);
  };

  const countTold = (now: Speculation | null): ToldSteps | null => {
    if (now === null) return null;
    const last = before;
    before = now;
    const steps = now.steps - (last?.steps ?? 0);
    const accepted = now.accepted - (last?.accepted ?? 0);
    const proposed = now.proposed === null ? null : now.proposed - (last?.proposed ?? 0);
    // Where steps are derived from tokens, they lag behind the drafts until the tokens of the step are out.
    const isStep = proposed === null ? steps > 0 : proposed > 0;
    if (!isStep || accepted < 0 || (proposed !== null && accepted > proposed)) return null;
    return { steps: Math.max(1, steps), accepted, proposed };
  };

  return {
    measure(body, speculation, atMs) {
      const characters = countCharacters(body);
      const counted = countTokens(body, characters);
      const told = countTold(speculation);
      if (characters === 0 && told === null && (counted ?? 0) === 0) return undefined;
      return { atMs, characters, tokens: counted, told };
    },
    get hasSeveralChoices() {
      return hasSeveralChoices;
    },
  };
}

const lengthOf = (value: unknown): number => (typeof value === 'string' ? value.length : 0);

function countChoice(choice: JsonObject): number {
  const delta = asObject(choice.delta);
  if (delta === undefined) return lengthOf(choice.text);
  const calls = asList(delta.tool_calls) ?? [];
  const called = calls
    .slice(0, 64)
    .reduce<number>((sum, call) => sum + lengthOf(asObject(asObject(call)?.function)?.arguments), 0);
  return lengthOf(delta.content) + lengthOf(delta.reasoning_content ?? delta.reasoning) + called;
}

/** Tokens that are listed for another purpose: log-probabilities, ids. */
function countListed(body: JsonObject): number | null {
  const choice = asObject(asList(body.choices)?.[0]);
  const logprobs = asObject(choice?.logprobs);
  const lists = [logprobs?.content, logprobs?.tokens, choice?.token_ids, body.tokens];
  for (const list of lists) {
    const { length } = asList(list) ?? [];
    if (length > 0) return length;
  }
  return null;
}
