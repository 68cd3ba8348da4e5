import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { readEarlierRun, refuseOtherAnswers, takeAnswers } from './answers-file.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
let count = 0;

const config = { target: { sha256: 'abc' }, date: '2026-01-02', steps: 3 };

function makeRun(settings: unknown, answers?: string): string {
  const folder = join(temporary.path, String((count += 1)));
  mkdirSync(folder);
  writeFileSync(
    join(folder, 'config.json'),
    typeof settings === 'string' ? settings : JSON.stringify(settings),
  );
  if (answers !== undefined) writeFileSync(join(folder, 'answers.jsonl'), answers);
  return folder;
}

describe('answers of an earlier run', () => {
  it('are copied once, and never over those that the run has since', () => {
    const from = makeRun(config, 'one\n');
    const run = makeRun(config);
    takeAnswers(from, run, 'train');
    const own = join(run, 'answers.jsonl');
    expect(readFileSync(own, 'utf8')).toBe('one\n');
    writeFileSync(own, 'one\ntwo\n');
    takeAnswers(from, run, 'train');
    expect(readFileSync(own, 'utf8')).toBe('one\ntwo\n');
    expect(readdirSync(run)).toEqual(['answers.jsonl', 'config.json']);
  });

  it('are told apart by what they follow from', () => {
    const earlier = readEarlierRun(makeRun({ ...config, chatTemplate: { source: 'x' } }, ''));
    const same = { target: { sha256: 'abc' }, date: '2026-01-02', chatTemplate: { source: 'x' } };
    refuseOtherAnswers(earlier, same);
    const others: [object, RegExp][] = [
      [{ target: { sha256: 'abd' } }, /with another target; this run would have others/],
      [{ chatTemplate: { source: 'y' } }, /with another chat template/],
      [{ chatTemplate: undefined }, /with another chat template/],
      [{ date: '2026-01-03' }, /with the date 2026-01-02/],
    ];
    for (const [change, message] of others)
      expect(() => {
        refuseOtherAnswers(earlier, { ...same, ...change });
      }).toThrow(message);
  });

  it.each([
    ['without answers', config, undefined],
    ['of something else', { settings: {} }, ''],
    ['whose config.json is damaged', '{"target":', ''],
  ])('are refused of a folder %s', (_, settings, answers) => {
    const folder = makeRun(settings, answers);
    expect(() => readEarlierRun(folder)).toThrow(`${folder} is no run with answers of a target.`);
    expect(() => readEarlierRun(join(folder, 'nowhere'))).toThrow(/is no run with answers/);
  });
});
