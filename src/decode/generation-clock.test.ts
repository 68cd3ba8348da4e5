/** With a clock that only sessions move: creating one takes 1000 ms, running it 1 ms. */
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { tiny, writeDecoder } from '../../test/support/tiny-checkpoints.js';
import { drafterVariants } from '../../test/support/tiny-drafters.js';
import { loadDrafter } from '../draft/systems.js';
import { loadModel } from '../model/causal-model.js';
import { sessionFactory } from '../runtime/onnx/create-session.js';
import { createOnnxRuntime } from '../runtime/onnx/onnx-runtime.js';
import { Engine } from './engine.js';
import { decodePlain } from './generate.js';
import { type Generation } from './request.js';
import type { PolicyChooser } from './policies/policy-chooser.js';
import { decodeSpeculative } from './generate.js';

const createMs = 1000;
const temporary = makeTemporaryFolder();
const { create } = sessionFactory;
let nowMs = 0;
let created = 0;
let runs = 0;

beforeEach(() => {
  [nowMs, created, runs] = [0, 0, 0];
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  vi.spyOn(sessionFactory, 'create').mockImplementation(async (...given) => {
    nowMs += createMs;
    created += 1;
    const session = await create(...given);
    return {
      ...session,
      run(...values) {
        nowMs += 1;
        runs += 1;
        return session.run(...values);
      },
    };
  });
});
afterEach(() => void vi.restoreAllMocks());
afterAll(() => {
  temporary.remove();
});

/** Nothing prepares its chains. */
const unprepared = (...lengths: readonly number[]): PolicyChooser => {
  let step = 0;
  const choose = () => ({ policy: { kind: 'chain', length: lengths[step++ % lengths.length]! } as const });
  return { chainLengths: [], choose, learn: () => undefined };
};

async function load() {
  const runtime = createOnnxRuntime({ threads: 1 });
  const target = await loadModel(writeDecoder(temporary.path, tiny), { runtime });
  const variant = drafterVariants.find(({ name }) => name === 'draft model')!;
  const drafter = await loadDrafter(variant.write(`${temporary.path}/drafter`, tiny), { target });
  return { runtime, target, drafter };
}

const request = { sampling: { temperature: 0 }, seed: 1, stopIds: [], maxNewTokens: 12 };
const workOf = ({ prefillMs, decodeMs }: Generation): number => prefillMs + decodeMs;

describe('the times of an answer', () => {
  it('leave out programs that are compiled before it and in the middle of it', async () => {
    const { runtime, target, drafter } = await load();
    const own = { ...request, promptIds: [5, 6, 7], policy: unprepared(1, 3, 2) };
    const [before, runsBefore] = [created, runs];
    const cold = await decodeSpeculative(target, drafter, own);
    const compiled = created - before;
    expect(compiled).toBeGreaterThan(3);
    expect(cold.preparationMs).toBe(createMs * compiled);
    expect(workOf(cold)).toBe(runs - runsBefore);
    expect(cold.draftMs + cold.verifyMs + cold.overheadMs).toBe(cold.decodeMs);
    expect(cold.tokensPerSecond).toBe(11 / (cold.decodeMs / 1000));
    const warm = await decodeSpeculative(target, drafter, { ...own, policy: unprepared(1, 3, 2) });
    expect(warm).toEqual({ ...cold, preparationMs: 0, steps: expect.anything() as unknown });
    const plain = await decodePlain(target, { ...request, promptIds: [5, 6, 7] });
    expect(plain).toMatchObject({ preparationMs: 0, prefillMs: 1, decodeMs: 11 });
    await runtime.dispose();
  });

  it('leave out what other sequences of an engine wait for', async () => {
    const { runtime, target, drafter } = await load();
    const engine = new Engine();
    const asked = [5, 9].map((first) => ({ ...request, promptIds: [first, 6, 7] }));
    const answers = await Promise.all([
      engine.run(() => decodePlain(target, { ...asked[0]!, engine })),
      engine.run(() =>
        decodeSpeculative(target, drafter, { ...asked[1]!, engine, policy: unprepared(2, 1) }),
      ),
    ]);
    for (const answer of answers) {
      // Both wait for programs, and for the passes of each other.
      expect(answer.preparationMs).toBeGreaterThanOrEqual(createMs);
      expect(workOf(answer)).toBeGreaterThanOrEqual(12);
      expect(workOf(answer)).toBeLessThanOrEqual(runs);
    }
    await runtime.dispose();
  });
});
