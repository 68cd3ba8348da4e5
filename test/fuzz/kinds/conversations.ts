/**
 * Conversations to train on, and answers.jsonl of a run. What is accepted are conversations of texts that are not empty,
 * in turns, under ids that are each used once, which can be reworded; and answers of the questions that were asked.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Random } from '../../../src/core/random.js';
import { createRandom } from '../../../src/core/random.js';
import { AnswersFile } from '../../../src/train/data/answers-file.js';
import { readConversations } from '../../../src/train/data/conversations.js';
import { mutateBytes, pick } from '../byte-mutations.js';
import { mutateJson } from '../json-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';

const conversationLines: readonly unknown[] = [
  {
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'If it is cold, what is the best way to find a big coat?' },
      { role: 'assistant', content: 'Ask.' },
    ],
  },
  {
    conversations: [
      { from: 'human', value: 'Write `f`.\n```js\nlet a;\n```' },
      { from: 'gpt', value: 'Done.' },
    ],
  },
  { turns: ['Write a poem.', 'Now a longer one.'], question_id: 7 },
  { prompt: 'Why is the sky "blue"?', answer: 'It scatters.', id: 'sky' },
  { question: 'What is 2 + 2?' },
  'A plain text.',
];

const answerLines: readonly unknown[] = ['a', 'b', 'c'].map((id) => ({
  ...{ id, asked: `digest of ${id}`, cut: false },
  turns: [
    { kept: 0, prompt: [1, 2, 3], answer: [4, 5], ended: 'stop' },
    { kept: 5, prompt: [6], answer: [7], ended: 'given' },
  ],
}));
const asked = new Map(['a', 'b', 'c', 'd'].map((id) => [id, `digest of ${id}`]));

function makeLines(lines: readonly unknown[], random: Random): string | Buffer {
  const chosen = random.nextInteger(lines.length);
  const ends = pick(random, ['\n', '\n', '\r\n', '\n\n']);
  const text = lines
    .map((line, index) => (index === chosen ? mutateJson(line, random) : JSON.stringify(line)) + ends)
    .join('');
  return random.nextInteger(4) === 0 ? mutateBytes(Buffer.from(text), random) : text;
}

async function tryConversations(path: string, random: Random): Promise<void> {
  writeFileSync(path, makeLines(conversationLines, random));
  const found = await readConversations(path);
  ensure(found.length > 0, 'no conversations');
  ensure(new Set(found.map(({ id }) => id)).size === found.length, 'an id twice');
  for (const { id, messages } of found) {
    ensure(id !== '' && messages.every(({ content }) => content.trim() !== ''), 'an empty text');
    ensure(
      messages.some(({ role }) => role === 'user'),
      'nothing is asked',
    );
  }
}

async function tryAnswers(path: string, random: Random): Promise<void> {
  writeFileSync(path, makeLines(answerLines, random));
  const file = await AnswersFile.open(path, asked);
  try {
    for (const id of asked.keys()) {
      const turns = file.get(id)?.turns ?? [];
      let before = 0;
      for (const { kept, prompt, answer } of turns) {
        ensure(kept >= 0 && kept <= before, `a turn keeps ${kept} of ${before} ids`);
        ensure(
          [...prompt, ...answer].every((token) => token >= 0),
          'a token below 0',
        );
        before = kept + prompt.length + answer.length;
      }
    }
    if (file.get('d') === undefined) file.add({ id: 'd', turns: [], cut: false }, 'digest of d');
  } finally {
    file.close();
  }
  // What is written behind damage that was accepted can be read again, and ends whole.
  ensure(readFileSync(path).at(-1) === 0x0a, 'a torn line was left');
  const again = await AnswersFile.open(path, asked);
  again.close();
  ensure(again.get('d') !== undefined, 'what was added is lost');
}

export const conversations: FuzzKind = {
  name: 'conversations',
  boundedRuns: 400,
  open(folder) {
    return async (seed) => {
      const random = createRandom(seed, 'conversations');
      const path = join(folder, 'file.jsonl');
      await (random.nextInteger(3) > 0 ? tryConversations(path, random) : tryAnswers(path, random));
    };
  },
};
