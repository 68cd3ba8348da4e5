import { afterAll, describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { DeviceLostError, OutOfMemoryError } from '../../runtime/program.js';
import { createOnnxRuntime } from '../../runtime/onnx/onnx-runtime.js';
import { createFailingRuntime } from '../../../test/support/failing-runtime.js';
import { TinyAudits, tinySettings } from '../../../test/support/tiny-audit.js';
import { tiny } from '../../../test/support/tiny-checkpoints.js';
import type { Candidate } from './candidates.js';
import { PassRows } from './pass-rows.js';
import { Scorer } from './scoring.js';

const noRoom = (): OutOfMemoryError => new OutOfMemoryError('There is no room.', 'Ask for less.');
const items = Array.from({ length: 20 }, (_, index) => index);

describe('the rows of a pass', () => {
  it('are those that the runtime wants', async () => {
    const sizes: number[] = [];
    const passRows = new PassRows({ rowsPerPass: 64 });
    const results = await passRows.runAll(items, 10, (some) => {
      sizes.push(some.length);
      return Promise.resolve(some.map((item) => 2 * item));
    });
    expect(results).toEqual(items.map((item) => 2 * item));
    expect(sizes).toEqual([6, 6, 6, 2]);
  });

  it('are halved where there is no room for them, for good and with one note', async () => {
    const sizes: number[] = [];
    const notes: string[] = [];
    const passRows = new PassRows({ rowsPerPass: 160 }, (note) => notes.push(note));
    const run = (some: readonly number[]): Promise<readonly number[]> => {
      sizes.push(some.length);
      return some.length > 4 ? Promise.reject(noRoom()) : Promise.resolve(some);
    };
    expect(await passRows.runAll(items, 10, run)).toEqual(items);
    expect(sizes).toEqual([16, 8, 4, 4, 4, 4, 4]);
    sizes.length = 0;
    expect(await passRows.runAll(items.slice(0, 6), 10, run)).toEqual(items.slice(0, 6));
    expect(sizes).toEqual([4, 2]);
    expect(notes).toEqual(['There is no room. The audit goes on with fewer candidates at a time.']);
  });

  it('cannot be fewer than those of one, and other failures are no reason', async () => {
    const passRows = new PassRows({ rowsPerPass: 4 });
    await expect(passRows.runAll(items, 10, () => Promise.reject(noRoom()))).rejects.toThrow('no room');
    let runs = 0;
    const lost = (): Promise<never> => {
      runs += 1;
      return Promise.reject(new DeviceLostError('The GPU is gone.', 'Start again.'));
    };
    await expect(new PassRows({ rowsPerPass: 64 }).runAll(items, 10, lost)).rejects.toThrow('gone');
    expect(runs).toBe(1);
  });
});

describe('scores on a device with little memory', () => {
  const mostCopies = 5;
  let refused = 0;
  const runtime = createFailingRuntime(createOnnxRuntime({ threads: 1 }), {
    rowsPerPass: 4096,
    beforeRun(inputs, isOfSearch) {
      const copies = (inputs.position ?? inputs.tokens)?.shape[0] ?? 0;
      if (!isOfSearch || copies <= mostCopies) return;
      refused += 1;
      throw noRoom();
    },
  });
  const audits = new TinyAudits(tiny, {}, runtime);
  const reference = new TinyAudits();
  afterAll(async () => {
    await audits.dispose();
    await reference.dispose();
  });

  const { suffixLength } = tinySettings;
  const random = createRandom(5, 'suffixes');
  const drawSuffix = (): number[] =>
    Array.from({ length: suffixLength }, () => random.nextInteger(tiny.vocabularySize));
  const editAll = (base: readonly number[]): Candidate[] =>
    base.flatMap((token, first) =>
      [1, 3, 5].map((shift) => ({
        suffixIds: base.with(first, (token + shift) % tiny.vocabularySize),
        first,
      })),
    );

  it('are those of a device with enough', async () => {
    const text = 'abcdefgh{suffix}ijk';
    const variant = 'EAGLE-3 with d2t';
    const small = await audits.openScorer(await audits.load(audits.writeDrafter(variant)), text);
    const large = await reference.openScorer(await reference.load(reference.writeDrafter(variant)), text);
    const notes: string[] = [];
    const { target, drafter, programs, prompt, state } = small;
    const passRows = new PassRows(runtime, (note) => notes.push(note));
    const models = { target: target.model, drafter };
    const scorer = new Scorer(target, models, programs, prompt, state, passRows);
    const bases = [drawSuffix(), drawSuffix()];
    // The first base comes again, after another has taken its place.
    for (const base of [...bases, bases[0]!]) {
      const candidates = editAll(base);
      const byKey = new Map(
        (await large.scorer.score(base, candidates)).map((each) => [each.suffixIds.join(), each]),
      );
      const scored = await scorer.score(base, candidates);
      expect(scored).toHaveLength(candidates.length);
      for (const { suffixIds, degradation, divergence, length, followed } of scored) {
        const expected = byKey.get(suffixIds.join())!;
        expect(degradation).toBeCloseTo(expected.degradation, 4);
        expect(divergence).toBeCloseTo(expected.divergence, 4);
        expect([length, followed]).toEqual([expected.length, expected.followed]);
      }
    }
    expect(refused).toBeGreaterThan(0);
    const [base] = bases;
    const positions = await scorer.differentiatePositions(base!);
    const expected = await large.scorer.differentiatePositions(base!);
    positions.forEach((gradient, position) => {
      gradient.forEach((value, at) => {
        expect(value).toBeCloseTo(expected[position]![at]!, 4);
      });
    });
    expect(positions).toHaveLength(expected.length);
    expect(notes).toHaveLength(1);
  });
});
