import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { sampleArm } from '../../../test/support/audit/sample-arm.js';
import { dropRepeated, fingerprintPrompt, parseSuffixes } from '../../text/prompts/suffix-list.js';
import type { ArmResult } from '../result.js';
import { presets } from '../settings.js';
import { armSchema } from '../result.js';
import { collectPrompt } from './drafter-units.js';

const folder = mkdtempSync(join(tmpdir(), 'mistletoe-origin-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

const text = 'Write a function that adds two numbers.';

/** What an audit of one prompt says of the suffixes that a file gives it. */
async function measure(
  lines: readonly (string | object)[],
  prompt: { readonly id: string; readonly text: string },
): Promise<readonly ArmResult['origin'][]> {
  const path = join(folder, 'suffixes.jsonl');
  writeFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const suffixes = dropRepeated(await parseSuffixes(path));
  const source = {
    get: (key: string) => {
      const [, , name = ''] = key.split('/');
      const [arm, repeat = '1'] = name.split('#');
      const result = sampleArm(armSchema.shape.arm.parse(arm), { steps: 10, accepted: 5 });
      return { result: { ...result, repeat: Number(repeat) } };
    },
  };
  const collected = collectPrompt(
    source as unknown as Parameters<typeof collectPrompt>[0],
    { settings: presets.quick, suffixes },
    'sps',
    { ...prompt, turns: [] },
  );
  return collected.arms.filter(({ arm }) => arm === 'given').map(({ origin }) => origin);
}

describe('a given suffix is replayed', () => {
  const chosenOn = [fingerprintPrompt(text)];
  const recorded = { suffix: ' x', prompt: 'code-1', drafter: 'sps', chosenOn };

  it('on the prompt that it belongs to, whatever else the file says', async () => {
    expect(await measure([recorded], { id: 'code-1', text })).toEqual([{ chosenOn, replayed: true }]);
    const { chosenOn: _, ...bound } = recorded;
    expect(await measure([bound], { id: 'code-1', text: 'Another text.' })).toEqual([
      { chosenOn: [], replayed: true },
    ]);
  });

  it('on the same text under another id, with other spacing, case, or place of the suffix', async () => {
    const { prompt: _, ...unbound } = recorded;
    for (const same of [
      text,
      ` ${text.toUpperCase()}\n`,
      text.replace('adds', 'adds {suffix} '),
      text.replaceAll(' ', '  '),
    ])
      expect(await measure([unbound], { id: 'renamed', text: same })).toEqual([{ chosenOn, replayed: true }]);
    expect(await measure([{ ...recorded, prompt: 'renamed' }], { id: 'renamed', text })).toEqual([
      { chosenOn, replayed: true },
    ]);
  });

  it('even if the same suffix is given a second time without its record, or with another', async () => {
    const other = { suffix: ' x', chosenOn: [fingerprintPrompt('Another text.')] };
    const { prompt: _, drafter: _drafter, ...unbound } = recorded;
    for (const lines of [
      [unbound, ' x'],
      [' x', unbound],
      [other, unbound],
    ])
      expect(await measure(lines, { id: 'renamed', text })).toMatchObject([{ replayed: true }]);
  });
});

describe('a given suffix is not replayed', () => {
  it('on a prompt that had no part in choosing it', async () => {
    const chosenOn = [fingerprintPrompt(text)];
    expect(await measure([{ suffix: ' x', chosenOn }], { id: 'code-2', text: 'Another text.' })).toEqual([
      { chosenOn, replayed: false },
    ]);
  });

  it('as far as is known, where nothing says what chose it', async () => {
    expect(await measure([' x'], { id: 'code-1', text })).toEqual([undefined]);
  });
});
