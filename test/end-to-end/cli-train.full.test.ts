/** `mistletoe train` of every system, from packed rows and kept states, and interrupted at other moments. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { trainableSystems } from '../../src/draft/systems.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { expectFallingLoss, lossesOf, readResult, TrainCommands } from './train-commands.js';

const commands = new TrainCommands(tiny);
afterAll(() => commands.dispose());

describe('a fresh drafter', () => {
  it.each(trainableSystems.filter((system) => system !== 'medusa'))(
    'of %s learns, loads and drafts',
    // By default a block has 7 slots, each of which is trained.
    (system) => commands.expectToLearn(system, ['dflash', 'dspark'].includes(system) ? ['--heads', '4'] : []),
  );

  it('learns as well from several texts in a row, with less padding', async () => {
    const uneven = `${commands.models.freshFolder()}.jsonl`;
    const prompts = Array.from({ length: 24 }, (_, index) => 'abcdefghijkl'.slice(0, 2 + (index % 11)));
    const lines = prompts.map((prompt, index) => JSON.stringify({ prompt, answer: 'hgfedcba'.repeat(1 + (index % 3)) })); // prettier-ignore
    writeFileSync(uneven, lines.join('\n'));
    const words = [
      '--system',
      'eagle3',
      '--data',
      uneven,
      '--no-generate',
      '--keep-states',
      '1MB',
      '--batch-tokens',
      '256',
    ];
    const [padded, packed] = [
      await commands.train(words),
      await commands.train([...words, '--rows', 'packed']),
    ];
    expect([packed.code, packed.err]).toEqual([0, '']);
    const [before, after] = [readResult(padded.folder), readResult(packed.folder)];
    expect(after.data.batches.paddingShare).toBeLessThan(before.data.batches.paddingShare);
    expect(after.lengths!.first).toEqual(before.lengths!.first);
    const losses = lossesOf(after);
    expectFallingLoss(losses);
    const report = readFileSync(join(packed.folder, 'report.md'), 'utf8');
    expect(report).toContain('several texts per row');
  });

  it('learns the same to the last digits from states of the target that are kept on the disk', async () => {
    const words = ['--system', 'eagle', '--steps', '6'];
    const [computed, kept] = [
      await commands.train(words),
      await commands.train([...words, '--keep-states', '1MB']),
    ];
    expect(existsSync(join(kept.folder, 'states.bin'))).toBe(true);
    const [expected, losses] = [computed, kept].map(({ folder }) => lossesOf(readResult(folder)));
    losses!.forEach((loss, update) => {
      expect(loss).toBeCloseTo(expected![update]!, 4);
    });
  });
});

describe('Ctrl-C', () => {
  const words = ['--system', 'eagle3', '--progress', 'plain'];
  let whole: string | undefined;

  it.each([
    ['while the target answers', /^answers: [1-9]/m],
    ['before the first update', /^train: 12 to do/m],
    ['between two updates', /^train: [1-9]\d*\/12/m],
  ])('%s saves, says how to resume, and the end is the same', async (_when, moment) => {
    whole ??= (await commands.train(words)).folder;
    await commands.expectToResume(words, whole, moment);
  });
});
