import { describe, expect, it } from 'vitest';
import { toSpecBenchFiles } from './spec-bench.js';
import { plainRecord, speculativeRecord } from '../../test/support/measure/sample-records.js';

describe('answer files for Spec-Bench', () => {
  it('write an answer in the shape its tools read', () => {
    const record = speculativeRecord({
      ...{ promptId: '81', category: 'writing', tokens: 9, decodeMs: 1500, prefillMs: 500 },
      accepted: [2, 0, 4],
    });
    const [file] = toSpecBenchFiles([record], 'target', 1_700_000_000_500);
    const [answer] = file!.answers;
    expect(answer).toEqual({
      question_id: 81,
      category: 'writing',
      answer_id: expect.stringMatching(/^[\w-]{22}$/) as string,
      model_id: 'target-eagle3-chain-4',
      choices: [
        {
          index: 0,
          turns: ['answer to 81'],
          decoding_steps: [3],
          new_tokens: [9],
          wall_time: [2],
          accept_lengths: [3, 1, 5],
        },
      ],
      tstamp: 1_700_000_000.5,
    });
  });

  it('count tokens of the answer, not those of the last path beyond its end', () => {
    // 1 + 5 + 5 tokens were verified, 8 belong to the answer.
    const record = speculativeRecord({ promptId: '1', tokens: 8, decodeMs: 10, accepted: [4, 4] });
    const [choice] = toSpecBenchFiles([record], 'target', 0)[0]!.answers[0]!.choices;
    expect(choice.new_tokens).toEqual([8]);
    expect(choice.decoding_steps).toEqual([2]);
    expect(choice.accept_lengths).toEqual([5, 5]);
  });

  it('give plain decoding a mean accepted length of 1', () => {
    const [choice] = toSpecBenchFiles(
      [plainRecord({ promptId: 'a', tokens: 3, decodeMs: 10 })],
      'target',
      0,
    )[0]!.answers[0]!.choices;
    expect(choice.accept_lengths).toEqual([1, 1, 1]);
    expect(choice.decoding_steps).toEqual([3]);
    expect(choice.new_tokens).toEqual([3]);
  });

  it('are one per set and system, with names that any file system takes', () => {
    const answer = { promptId: 'a', tokens: 3, decodeMs: 10 };
    const files = toSpecBenchFiles(
      [
        plainRecord(answer),
        speculativeRecord({ ...answer, accepted: [1], policy: 'tree:../odd dir/my tree.json' }),
        plainRecord({ ...answer, promptId: 'b' }),
        plainRecord({ ...answer, set: 'chat' }),
      ],
      'target',
      0,
    );
    expect(files.map(({ set, modelId, answers }) => [set, modelId, answers.length])).toEqual([
      ['code', 'target-plain', 2],
      ['code', 'target-eagle3-tree-..-odd-dir-my-tree.json', 1],
      ['chat', 'target-plain', 1],
    ]);
  });

  it('keep ids that are not numbers, and name the set where there is no category', () => {
    const record = plainRecord({ promptId: '007', tokens: 2, decodeMs: 1 });
    const [answer] = toSpecBenchFiles([record], 'target', 0)[0]!.answers;
    expect(answer?.question_id).toBe('007');
    expect(answer?.category).toBe('code');
  });
});
