import { describe, expect, it } from 'vitest';
import type { LaneProgram, LaneRun } from '../model/lanes/lane-program.js';
import { int32, integersOf } from '../runtime/program.js';
import { SharedPasses } from './shared-passes.js';

/** Gives each run its own number back; refuses a pass that has the number 13. */
function createProgram() {
  const passes: number[][] = [];
  const program: Pick<LaneProgram, 'run' | 'prefixOf'> = {
    prefixOf: () => undefined,
    async run(runs) {
      const numbers = runs.map(({ inputs }) => integersOf(inputs, 'number')[0]!);
      passes.push(numbers);
      await Promise.resolve();
      if (numbers.includes(13)) throw new Error('13 is refused');
      return numbers.map((number) => ({ number: int32([number]) }));
    },
  };
  return { passes, program: program as LaneProgram };
}

const runOf = (number: number): LaneRun => ({ inputs: { number: int32([number]) } });

/** Each turn asks for as many passes as its list has numbers. */
async function actFor(lists: readonly (readonly number[])[], programs: readonly LaneProgram[]) {
  const shared = new SharedPasses(() => lists.length);
  const failed: unknown[] = [];
  const results = await shared.forEach(
    lists,
    async (numbers) => {
      const found: number[] = [];
      for (const [index, number] of numbers.entries()) {
        const program = programs[index % programs.length]!;
        const outputs = await shared.run(program, runOf(number), ['number']);
        found.push(integersOf(outputs, 'number')[0]!);
      }
      return found;
    },
    (numbers, cause) => failed.push([numbers, String(cause)]),
  );
  return { results, failed };
}

describe('passes of several sequences', () => {
  it('are one as long as all of them ask, and each gets its own', async () => {
    const { passes, program } = createProgram();
    const { results } = await actFor([[1, 2, 3], [4], [5, 6]], [program]);
    expect(results).toEqual([[1, 2, 3], [4], [5, 6]]);
    expect(passes).toEqual([[1, 4, 5], [2, 6], [3]]);
  });

  it('are apart for different programs', async () => {
    const [one, other] = [createProgram(), createProgram()];
    const { results } = await actFor([[1, 2], [3, 4], []], [one.program, other.program]);
    expect(results).toEqual([[1, 2], [3, 4], []]);
    expect([one.passes, other.passes]).toEqual([[[1, 3]], [[2, 4]]]);
  });

  it('are tried one by one where one of them fails, so that the others go on', async () => {
    const { passes, program } = createProgram();
    const { results, failed } = await actFor([[1, 2], [13, 3], [4]], [program]);
    expect(results).toEqual([[1, 2], [4]]);
    expect(failed).toEqual([[[13, 3], 'Error: 13 is refused']]);
    expect(passes).toEqual([[1, 13, 4], [1], [13], [4], [2]]);
  });
});
