import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { walkAnswer } from './held-answer.js';
import { acceptedLengthOf } from '../../measure/statistics.js';

const levels = (...rows: number[][]): Float32Array[] => rows.map((row) => Float32Array.from(row));

describe('the walk along an answer', () => {
  it('counts steps and accepted drafts by hand', () => {
    // Six answer tokens. From token 0 both drafts hold, from token 3 the first fails, from token 4 the first holds.
    const table = levels([1, 0, 0, 0, 1], [1, 0, 0, 1]);
    expect(walkAnswer(table, 6)).toEqual({ steps: 3, accepted: 3 });
    expect(acceptedLengthOf({ steps: 3, accepted: 3 })).toBe(2);
  });

  it('needs no pass for an answer of one token, and one for each further token where nothing is accepted', () => {
    expect(walkAnswer([], 1)).toEqual({ steps: 0, accepted: 0 });
    expect(walkAnswer([], 0)).toEqual({ steps: 0, accepted: 0 });
    expect(acceptedLengthOf({ steps: 0, accepted: 0 })).toBe(1);
    expect(walkAnswer(levels([0, 0, 0], [0, 0]), 4)).toEqual({ steps: 3, accepted: 0 });
  });

  it('covers the answer: what the steps bring is all of it but the first token', () => {
    const bit = fc.constantFrom(0, 1);
    const rows = fc.tuple(
      fc.array(bit, { minLength: 11, maxLength: 11 }),
      fc.array(bit, { minLength: 10, maxLength: 10 }),
    );
    fc.assert(
      fc.property(rows, (drawn) => {
        const { steps, accepted } = walkAnswer(levels(...drawn), 12);
        // The last step may end with an accepted draft, without a token of the target's own.
        expect([11, 12]).toContain(steps + accepted);
      }),
    );
  });

  it('with probabilities is the mean of many walks with yes and no', () => {
    const random = createRandom(5, 'walk');
    const length = 14;
    const table = Array.from({ length: 3 }, (_, level) =>
      Float32Array.from({ length: length - 1 - level }, () => random.next()),
    );
    const expected = walkAnswer(table, length);
    const runs = 20_000;
    let steps = 0;
    let accepted = 0;
    for (let run = 0; run < runs; run++) {
      const drawn = table.map((row) => row.map((share) => Number(random.next() < share)));
      const walked = walkAnswer(drawn, length);
      steps += walked.steps / runs;
      accepted += walked.accepted / runs;
    }
    expect(Math.abs(steps - expected.steps)).toBeLessThan(0.05);
    expect(Math.abs(accepted - expected.accepted)).toBeLessThan(0.05);
  });
});
