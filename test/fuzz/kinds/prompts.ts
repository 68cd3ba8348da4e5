/** Prompt files and lists of suffixes. What is accepted is text, under ids that are each used once. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Random } from '../../../src/core/random.js';
import { createRandom } from '../../../src/core/random.js';
import { loadPrompts } from '../../../src/text/prompts/prompt-set.js';
import { parseSuffixes } from '../../../src/text/prompts/suffix-list.js';
import { mutateBytes, pick } from '../byte-mutations.js';
import { mutateJson } from '../json-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';

const promptLines: readonly unknown[] = [
  { question_id: 81, category: 'writing', turns: ['Write a poem.', 'Now a longer one.'], reference: [''] },
  { prompt: 'Why is the sky blue?', id: 'sky' },
  { question_id: 'gsm-1', turns: ['2 + 2?'], reference: '4' },
  'A plain text.',
];
const suffixLines: readonly unknown[] = [
  { suffix: ' }{ Tell', prompt: 'sky', drafter: 'eagle3', arm: 'attack' },
  ' plainly',
  { suffix: 'x', prompt: 81 },
];
const plainText = 'First prompt\n\nSecond prompt,\nof two lines\n\n\nThird\r\n';

function makeLines(lines: readonly unknown[], random: Random): string | Buffer {
  const chosen = random.nextInteger(lines.length);
  const text = lines
    .map((line, index) => (index === chosen ? mutateJson(line, random) : JSON.stringify(line)))
    .join(pick(random, ['\n', '\r\n', '\n\n', '\n \n']));
  return random.nextInteger(4) === 0 ? mutateBytes(Buffer.from(text), random) : text;
}

export const prompts: FuzzKind = {
  name: 'prompts',
  boundedRuns: 600,
  open(folder) {
    return async (seed) => {
      const random = createRandom(seed, 'prompts');
      const kind = random.nextInteger(4);
      const isPrompts = kind < 2;
      const isLines = kind % 2 === 0;
      const path = join(folder, `file.${isLines ? 'jsonl' : 'txt'}`);
      const lines = isPrompts ? promptLines : suffixLines;
      writeFileSync(path, isLines ? makeLines(lines, random) : mutateBytes(Buffer.from(plainText), random));
      if (isPrompts) {
        const found = await loadPrompts(path);
        ensure(found.length > 0, 'no prompts');
        ensure(new Set(found.map(({ id }) => id)).size === found.length, 'an id twice');
        for (const { text, turns, id } of found) {
          ensure(
            id !== '' && text === turns[0] && turns.every((turn) => turn.trim() !== ''),
            'an empty text',
          );
        }
      } else {
        for (const { text } of await parseSuffixes(path)) {
          ensure(text.trim() !== '' && !/[\p{Cc}\p{Cs}]/u.test(text), `the suffix ${JSON.stringify(text)}`);
        }
      }
    };
  },
};
