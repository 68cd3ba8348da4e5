/**
 * Examples: token ids, and which of them are in the loss. Those are the tokens of answers, and of prompts only if asked
 * for. A conversation is one example, unless a later prompt does not begin with the previous turns. The turns from there
 * on are another example, with the earlier answers outside of the loss.
 */
import { MistletoeError } from '../../core/errors.js';
import { createRandom } from '../../core/random.js';
import type { TrainSettings } from '../settings.js';
import type { AnsweredConversation } from './answers-file.js';

export interface Example {
  /** Unique among the examples of a run. */
  readonly id: string;
  readonly tokens: Int32Array; // [position]
  /** 1 if the token at this position is in the loss. [position] */
  readonly isLearnt: Uint8Array;
  /** Examples of one conversation stay on one side of a split. */
  readonly conversationId?: string | undefined;
}

export function createExamples(
  conversations: readonly AnsweredConversation[],
  { maxTokens }: Pick<TrainSettings, 'maxTokens'>,
) {
  const examples: Example[] = [];
  let cut = 0;
  let withoutLearnt = 0; // examples without a token in the loss; they are left out
  for (const conversation of conversations) {
    const sequences = sequencesOf(conversation);
    if (sequences.length === 0) withoutLearnt += 1;
    for (const [index, { tokens, isLearnt }] of sequences.entries()) {
      if (tokens.length > maxTokens) cut += 1;
      const length = isLearnt.lastIndexOf(1, maxTokens - 1) + 1;
      // The first token has no context to be predicted from.
      if (length < 2) withoutLearnt += 1;
      else
        examples.push({
          id: index === 0 ? conversation.id : `${conversation.id}#${index + 1}`,
          tokens: Int32Array.from(tokens.slice(0, length)),
          isLearnt: Uint8Array.from(isLearnt.slice(0, length)),
          conversationId: conversation.id,
        });
    }
  }
  refuseRepeated(examples);
  return { examples, counts: { ...countTokens(examples), cut, withoutLearnt } };
}

interface Sequence {
  readonly tokens: number[];
  readonly isLearnt: number[];
}

function sequencesOf({ turns }: AnsweredConversation): readonly Sequence[] {
  const sequences: Sequence[] = [];
  for (const { kept, prompt, answer } of turns) {
    const before = sequences.at(-1);
    const continues = before?.tokens.length === kept;
    const shared = before?.tokens.slice(0, kept) ?? [];
    const sequence = continues ? before : { tokens: shared, isLearnt: shared.map(() => 0) };
    if (!continues) sequences.push(sequence);
    const add = (ids: Int32Array, isLearnt: number): void => {
      for (const id of ids) {
        sequence.tokens.push(id);
        sequence.isLearnt.push(isLearnt);
      }
    };
    add(prompt, 0);
    add(answer, 1);
  }
  return sequences;
}

export const learnAll = (example: Example): Example => ({
  ...example,
  isLearnt: new Uint8Array(example.tokens.length).fill(1),
});

export function countTokens(examples: readonly Example[]) {
  let tokens = 0;
  let learntTokens = 0;
  for (const example of examples) {
    tokens += example.tokens.length;
    for (const isLearnt of example.isLearnt) learntTokens += isLearnt;
  }
  return { examples: examples.length, tokens, learntTokens };
}

/** Stored states are keyed by example id, so ids must be unique. */
function refuseRepeated(examples: readonly Example[]): void {
  const seen = new Set<string>();
  for (const { id } of examples) {
    if (seen.has(id)) {
      throw new MistletoeError(
        'usage',
        `Two examples have the id ${id}; each was expected to have its own.`,
        { hint: 'Give every conversation of the data its own id.' },
      );
    }
    seen.add(id);
  }
}

/**
 * Seed and id decide on which side a conversation is, so adding conversations moves few of the others. `validation`: below
 * 1 the share of conversations that are held out, else how many. They come in a fixed random order: the first few are a
 * fair sample.
 */
export function splitExamples(
  examples: readonly Example[],
  { validation, seed }: Pick<TrainSettings, 'validation' | 'seed'>,
) {
  const groupOf = ({ id, conversationId = id }: Example): string => conversationId;
  const draws = new Map(
    examples.map(groupOf).map((group) => [group, createRandom(seed, 'validation', group).next()]),
  );
  const ranked = [...draws.keys()].sort(
    (left, right) => draws.get(left)! - draws.get(right)! || compareIds(left, right),
  );
  const isDrawn = (group: string): boolean => draws.get(group)! < validation;
  const count = validation < 1 ? ranked.filter(isDrawn).length : validation;
  const wanted = validation > 0 ? Math.max(1, count) : 0;
  if (wanted >= ranked.length) {
    throw new MistletoeError(
      'usage',
      `${wanted} of ${ranked.length} conversations are to be held out for validation; none would be left to train on.`,
      { hint: 'Hold out fewer, or give more data.' },
    );
  }
  const rankOf = new Map(ranked.map((group, rank) => [group, rank]));
  const isHeldOut = (example: Example): boolean => rankOf.get(groupOf(example))! < wanted;
  const byId = (left: Example, right: Example): number => compareIds(left.id, right.id);
  const byRank = (left: Example, right: Example): number =>
    rankOf.get(groupOf(left))! - rankOf.get(groupOf(right))! || byId(left, right);
  return {
    training: examples.filter((example) => !isHeldOut(example)).sort(byId),
    validation: examples.filter(isHeldOut).sort(byRank),
  };
}

/** By code units, so that the order is the same in every locale. */
export function compareIds(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

/** For examples made from files, which may have been edited or copied from a run with another target. */
export function refuseUnknownTokens(
  examples: readonly Example[],
  vocabularySize: number,
  file: string,
): readonly Example[] {
  for (const { id, tokens } of examples) {
    const unknown = tokens.find((token) => token < 0 || token >= vocabularySize);
    if (unknown === undefined) continue;
    throw new MistletoeError(
      'checkpoint',
      `${file} has the token ${unknown} in the text ${id}, but the target has ${vocabularySize} tokens.`,
      { hint: 'It is of another target, or damaged: remove its line, and the text is made again.' },
    );
  }
  return examples;
}
