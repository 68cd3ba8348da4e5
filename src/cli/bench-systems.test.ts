import { describe, expect, it } from 'vitest';
import { bundledDrafterFolder, bundledDrafters, bundledTarget } from '../core/package-files.js';
import { defaultDraftPolicy } from '../decode/generate.js';
import { formatDraftPolicy } from '../draft/tree/policy.js';
import { planDrafters } from './bench-systems.js';
import { namePromptSets } from './model-source.js';

type Subjects = Parameters<typeof planDrafters>[0];

const flagsWith = (changes: Partial<Subjects>): Subjects => ({
  target: bundledTarget,
  drafter: [],
  draft: [],
  ...changes,
});

const plan = (changes: Partial<Subjects>) =>
  planDrafters(flagsWith(changes)).map(({ name, policies }) => [name, ...policies.map(formatDraftPolicy)]);

describe('the systems of a benchmark', () => {
  it('are the bundled drafters and lookups, with their default, unless told otherwise', () => {
    const names = [...bundledDrafters, 'ngram', 'ngram+eagle3'];
    expect(plan({})).toEqual(names.map((name) => [name]));
    expect(planDrafters(flagsWith({})).map(({ source }) => source)).toEqual([
      ...bundledDrafters.map(bundledDrafterFolder),
      'ngram:1,4',
      `ngram:1,16+${bundledDrafterFolder('eagle3')}`,
    ]);
    expect(plan({ draft: ['dynamic:8,2,2'] })).toHaveLength(bundledDrafters.length);
  });

  it('take policies for all, for one, and several of each', () => {
    const drafter = ['models/eagle', 'models/medusa/'];
    expect(plan({ drafter, draft: ['chain:4'] })).toEqual([
      ['eagle', 'chain:4'],
      ['medusa', 'chain:4'],
    ]);
    expect(plan({ drafter, draft: ['auto', 'eagle=chain:4', 'eagle=dynamic:60,5,10'] })).toEqual([
      ['eagle', 'chain:4', 'dynamic:60,5,10'],
      ['medusa', 'auto'],
    ]);
    expect(plan({ drafter, draft: ['tree:a=b.json', 'medusa=tree:c=d.json'] })).toEqual([
      ['eagle', 'tree:a=b.json'],
      ['medusa', 'tree:c=d.json'],
    ]);
  });

  it('are named by whole paths where folders share a name', () => {
    expect(plan({ drafter: ['one/eagle', 'two/eagle', 'two/sps'] })).toEqual([
      ['one/eagle'],
      ['two/eagle'],
      ['sps'],
    ]);
  });

  it('are refused when they cannot be meant', () => {
    expect(() => plan({ drafter: ['a/eagle', 'a/../a/eagle'] })).toThrow(/given twice/);
    expect(() => plan({ drafter: ['a/eagle'], draft: ['eagel=auto'] })).toThrow(
      /names eagel, .* the drafters are eagle\./,
    );
    expect(() => plan({ draft: ['chian:4'] })).toThrow(/"chian:4" is not understood/);
    expect(() => plan({ target: 'elsewhere' })).toThrow(/no drafter for the target elsewhere/);
  });

  it('draft by measured cost without temperature and by a fixed chain with one', () => {
    expect(defaultDraftPolicy({ maximumDepth: 5 }, { temperature: 0 })).toEqual({ kind: 'auto' });
    expect(defaultDraftPolicy({ maximumDepth: 5 }, { temperature: 0.7 })).toEqual({
      kind: 'chain',
      length: 4,
    });
    expect(defaultDraftPolicy({ maximumDepth: 3 }, { temperature: 0.7 })).toEqual({
      kind: 'chain',
      length: 3,
    });
  });
});

describe('the prompt sets of a benchmark', () => {
  const names = (...prompts: string[]) => [...namePromptSets(prompts).keys()];

  it('are named by their files', () => {
    expect(names('mt-bench', 'data/my.prompts.jsonl', 'list.txt')).toEqual([
      'mt-bench',
      'my.prompts',
      'list',
    ]);
    expect(names('a/list.txt', 'b/list.jsonl')).toEqual(['a/list.txt', 'b/list.jsonl']);
    expect(namePromptSets([]).size).toBe(1);
  });

  it('are files or known by name', () => {
    expect(() => names('mtbench')).toThrow(/--prompts is mtbench; .*mt-bench, humaneval, gsm8k was expected/);
    expect(() => names('gsm8k', 'gsm8k')).toThrow(/given twice/);
  });
});
