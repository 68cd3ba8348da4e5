import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { generateText } from '../../decode/generate.js';
import { type Target } from '../../decode/target.js';
import type { ChatMessage } from '../../text/template/chat-template.js';
import type { AnswersRequest } from './answers.js';
import { answerConversations, refuseUnanswered } from './answers.js';
import type { AnsweredConversation } from './answers-file.js';
import type { Conversation } from './conversations.js';
import { letterIds, LetterTarget, letterTemplate } from '../../../test/support/train/letter-target.js';

const letters = new LetterTarget();
let target: Target;
beforeAll(async () => {
  target = await letters.open();
});
afterAll(() => letters.dispose());

const user = (content: string): ChatMessage => ({ role: 'user', content });
const assistant = (content: string): ChatMessage => ({ role: 'assistant', content });
const ask = (id: string, ...messages: ChatMessage[]): Conversation => ({ id, messages });

const conversations = [
  ...['b', 'cd', 'efg', 'hh', 'ijk', 'lmno', 'prs'].map((text) => ask(text, user(text))),
  ask('two', user('bc'), user('de')),
  ask('three', { role: 'system', content: 'k' }, user('b'), assistant('cc'), user('d'), user('e')),
];
const drawn = { temperature: 1 };

function answer(more: Partial<AnswersRequest> = {}) {
  const file = letters.freshPath('answers.jsonl');
  const greedy = { sampling: { temperature: 0 }, seed: 0, generate: true };
  return answerConversations({ target, conversations, file, maxNewTokens: 9, ...greedy, ...more });
}

const sorted = (path: string): string[] => readFileSync(path, 'utf8').trimEnd().split('\n').sort();
const sequenceOf = ({ turns }: AnsweredConversation): number[] =>
  turns.reduce<number[]>(
    (before, turn) => [...before.slice(0, turn.kept), ...turn.prompt, ...turn.answer],
    [],
  );

describe('the target answers', () => {
  it('as it does alone, each turn behind its own earlier answers', async () => {
    const result = await answer();
    expect(result).toMatchObject({ cutCount: 0, interrupted: false });
    expect(result.conversations.map(({ id }) => id)).toEqual(conversations.map(({ id }) => id));
    for (const [index, { messages }] of conversations.entries()) {
      const { turns } = result.conversations[index]!;
      const history: ChatMessage[] = [];
      let before = 0;
      for (const [turn, message] of messages.filter(({ role }) => role !== 'assistant').entries()) {
        history.push(message);
        if (message.role === 'system') continue;
        const alone = await generateText(target, history, { maxNewTokens: 9 });
        const found = turns[messages[0]!.role === 'system' ? turn - 1 : turn]!;
        expect(Array.from(found.answer)).toEqual(alone.tokenIds);
        expect(found).toMatchObject({ kept: before, ended: alone.finishReason });
        expect(before + found.prompt.length).toBe(alone.promptTokenIds.length);
        before += found.prompt.length + found.answer.length;
        history.push(assistant(alone.text));
      }
      expect(turns.length).toBe(messages.filter(({ role }) => role === 'user').length);
    }
  });

  it.each([
    ['greedily', { temperature: 0 }],
    ['drawn', drawn],
  ])('with the same bytes however many are asked at once, %s', async (_, sampling) => {
    const files = await Promise.all(
      [1, 2, 5, 32].map(async (concurrency) => {
        const file = letters.freshPath('answers.jsonl');
        await answer({ file, concurrency, sampling, seed: 3 });
        return sorted(file);
      }),
    );
    for (const file of files) expect(file).toEqual(files[0]);
  });

  it('where no two of them have room at once, and one alone has not', async () => {
    const { conversations: roomy } = await answer();
    const { conversations: tight } = await answer({ memoryBytes: 1 });
    expect(tight).toEqual(roomy);
  });

  it('drawing by seed and id alone', async () => {
    const all = await answer({ sampling: drawn, seed: 3 });
    const few = await answer({ sampling: drawn, seed: 3, conversations: [conversations[5]!] });
    const other = await answer({ sampling: drawn, seed: 4 });
    const renamed = await answer({
      sampling: drawn,
      seed: 3,
      conversations: [{ ...conversations[5]!, id: 'x' }],
    });
    expect(few.conversations[0]).toEqual(all.conversations[5]);
    expect(other.conversations).not.toEqual(all.conversations);
    expect(renamed.conversations[0]!.turns).not.toEqual(all.conversations[5]!.turns);
  });

  it('behind what its template leaves of an earlier answer', async () => {
    const source = letterTemplate.replace("{{ m['content'] }}q", 'xq');
    const forgetful = await letters.open({ chatTemplate: { source, origin: 'forgetful.jinja' } });
    const result = await answer({ target: forgetful, conversations: [ask('two', user('bc'), user('de'))] });
    const [first, second] = result.conversations[0]!.turns;
    expect(first!.answer.length).toBeGreaterThan(2);
    expect(second).toMatchObject({ kept: letterIds('ubca').length });
    expect(Array.from(second!.prompt)).toEqual(letterIds('xqudea'));
  });

  it('as far as the context goes', async () => {
    const long = 'b'.repeat(30);
    const result = await answer({
      conversations: [ask('long', user('b'.repeat(70))), ask('longer', user(long), user(long), user('c'))],
    });
    expect(result.cutCount).toBe(2);
    expect(result.conversations.map(({ turns }) => turns.length)).toEqual([0, 1]);
  });

  it('and says which conversation its template refuses', async () => {
    const strict = await letters.open({
      chatTemplate: { source: "{{ raise_exception('no') }}", origin: 'strict.jinja' },
    });
    await expect(answer({ target: strict })).rejects.toThrow(
      /The conversation three cannot be asked: .*strict/,
    );
  });
});

describe('a run that goes on', () => {
  it('asks only what is missing, wherever its file was cut', async () => {
    const file = letters.freshPath('answers.jsonl');
    const whole = await answer({ file, sampling: drawn });
    const bytes = readFileSync(file);
    const lines = sorted(file);
    const firstLine = bytes.indexOf(0x0a) + 1;
    for (const cut of [0, 1, firstLine - 1, firstLine, firstLine + 7, bytes.length - 1, bytes.length]) {
      writeFileSync(file, bytes);
      truncateSync(file, cut);
      const finished = bytes.subarray(0, cut).toString().split('\n').length - 1;
      const seen: number[] = [];
      let written = 0;
      const again = await answer({
        ...{ file, sampling: drawn },
        onProgress({ done, newTokens }) {
          seen.push(done);
          written = newTokens;
        },
      });
      expect(again).toEqual(whole);
      expect(seen[0]).toBe(finished);
      expect(seen.at(-1)).toBe(conversations.length);
      expect(written > 0).toBe(finished < conversations.length);
      // Whole lines stay where they are; a torn one is written again in its turn, which may be another's.
      const kept = bytes.subarray(0, bytes.subarray(0, cut).lastIndexOf(0x0a) + 1);
      expect(readFileSync(file).subarray(0, kept.length).equals(kept)).toBe(true);
      expect(sorted(file)).toEqual(lines);
    }
  });

  it('keeps what was finished when it was aborted', async () => {
    const file = letters.freshPath('answers.jsonl');
    const controller = new AbortController();
    const part = await answer({
      ...{ file, concurrency: 2, signal: controller.signal },
      onProgress({ done }) {
        if (done === 3) controller.abort();
      },
    });
    expect(part.interrupted).toBe(true);
    expect(part.conversations.length).toBeGreaterThanOrEqual(3);
    expect(part.conversations.length).toBeLessThan(conversations.length);
    expect(sorted(file).length).toBe(part.conversations.length);
    expect(await answer({ file })).toEqual(await answer());
  });

  it('refuses answers to other questions, and damaged lines', async () => {
    // One at a time, they are written as they are asked: the longest first.
    const file = letters.freshPath('answers.jsonl');
    await answer({ file, concurrency: 1 });
    await expect(answer({ file, maxNewTokens: 10 })).rejects.toThrow(
      /line 1, .* conversation three, .* changed/,
    );
    await expect(answer({ file, conversations: [ask('lmno', user('xx'))] })).rejects.toThrow(/line 2, /);
    const text = readFileSync(file, 'utf8');
    for (const [from, to, message] of [
      ['"kept":0', '"kept":1', /line 1, .*keeps more than there is/],
      ['"answer":[', '"answer":[-1,', /line 1, .*turns\.0\.answer/],
      ['{', '', /line 1, is not valid JSON/],
    ] as const) {
      writeFileSync(file, text.replace(from, to));
      await expect(answer({ file })).rejects.toThrow(message);
    }
    writeFileSync(file, text.split('\n').slice(0, 1).join('').concat('\n').repeat(2));
    await expect(answer({ file })).rejects.toThrow(/line 2, answers the conversation three a second time/);
  });

  it('says where it cannot write', async () => {
    const file = letters.freshPath('no-folder/answers.jsonl');
    await expect(answer({ file })).rejects.toThrow(
      /answers\.jsonl could not be written: the folder \S*no-folder no longer exists/,
    );
  });
});

describe('answers that are given', () => {
  const complete = [ask('one', user('b'), assistant('cde'), user('f'), assistant('gh'))];

  it('are taken as they are where the target does not write them', async () => {
    const { conversations: found } = await answer({ conversations: complete, generate: false });
    expect(found[0]!.turns.map(({ ended }) => ended)).toEqual(['given', 'given']);
    expect(sequenceOf(found[0]!)).toEqual(letterIds('ubacdequfaghq'));
    expect(found[0]!.turns.map((turn) => Array.from(turn.answer))).toEqual([
      letterIds('cdeq'),
      letterIds('ghq'),
    ]);
  });

  it('must be there where the target may not generate', () => {
    expect(() => {
      refuseUnanswered(complete);
    }).not.toThrow();
    expect(() => {
      refuseUnanswered(conversations);
    }).toThrow('The target may not generate, but the conversation b has a question without an answer.');
  });

  it('are cut where the context ends', async () => {
    const long = [ask('one', user('b'), assistant('c'.repeat(70)), user('d'), assistant('e'))];
    const { conversations: found, cutCount } = await answer({ conversations: long, generate: false });
    expect(cutCount).toBe(1);
    expect(found[0]!.turns).toHaveLength(1);
    expect(found[0]!.turns[0]).toMatchObject({ ended: 'context' });
    expect(sequenceOf(found[0]!)).toHaveLength(64);
  });
});
