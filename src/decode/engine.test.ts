/** The contract of the step: whatever fails ends or changes one sequence, and nothing of it stays behind. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { countMemory } from '../../test/support/counting-runtime.js';
import { tiny } from '../../test/support/tiny-checkpoints.js';
import { drawnVariant, hybridVariant, ngramVariant } from '../../test/support/tiny-drafters.js';
import { randomTokens, resolveText, TinyModels } from '../../test/support/tiny-pair.js';
import { MistletoeError } from '../core/errors.js';
import { createRandom } from '../core/random.js';
import type { Drafter, DraftSession } from '../draft/drafter.js';
import type { CausalModel } from '../model/causal-model.js';
import { createOnnxRuntime } from '../runtime/onnx/onnx-runtime.js';
import type { Program, Runtime } from '../runtime/program.js';
import { Engine } from './engine.js';
import { decodePlain, decodeSpeculative } from './generate.js';
import { always } from './policies/policy-chooser.js';
import type { GenerationRequest, SpeculativeRequest } from './request.js';

/** Throws in place of passes while there are failures left. */
const failures = { left: 0, create: () => new Error('The device is gone.') };

function failOnRequest(runtime: Runtime): Runtime {
  const compile: Runtime['compile'] = async (...given) => {
    const program = await runtime.compile(...given);
    const run = (...asked: Parameters<Program['run']>) => {
      if (failures.left === 0) return program.run(...asked);
      failures.left -= 1;
      return Promise.reject(failures.create());
    };
    return Object.create(program, { run: { value: run } }) as Program;
  };
  return Object.create(runtime, { compile: { value: compile } }) as Runtime;
}

const { runtime: counted, memory } = countMemory(createOnnxRuntime({ threads: 1 }), true);
const models = new TinyModels(tiny, failOnRequest(counted));
afterAll(() => models.dispose());
afterEach(() => {
  failures.left = 0;
});

let target: CausalModel;
/** A lookup and a head, and two that draw. */
let drafters: readonly Drafter[];
beforeAll(async () => {
  ({ target } = await models.loadTarget());
  drafters = await Promise.all(
    [hybridVariant, drawnVariant, ngramVariant].map((variant) =>
      models.loadDrafter(variant.write(models.freshFolder(), tiny), target),
    ),
  );
});

type Changes = Partial<SpeculativeRequest>;

const requestFor = (index: number): GenerationRequest => ({
  ...{ promptIds: randomTokens(`contract-${index}`, 5 + index, tiny.vocabularySize), maxNewTokens: 12 },
  ...{ stopIds: [], sampling: { temperature: 0 }, seed: index },
});

const decode = (index: number, drafter: Drafter, changes: Changes = {}) =>
  decodeSpeculative(target, drafter, {
    ...requestFor(index),
    policy: always(resolveText('chain:3', drafter)),
    ...changes,
  });

/** Passes on to a session; some of its methods are replaced. */
function changeSessions(drafter: Drafter, change: (session: DraftSession) => Partial<DraftSession>): Drafter {
  const startSession: Drafter['startSession'] = (scheduler) => {
    const session = drafter.startSession(scheduler);
    return Object.assign(Object.create(session) as DraftSession, change(session));
  };
  return Object.create(drafter, { startSession: { value: startSession } }) as Drafter;
}

const fail = (): never => {
  throw new MistletoeError('drafter', 'The drafter returned NaN.');
};

/** Works `count` times. */
function failAfter<Given extends readonly unknown[], Result>(
  count: number,
  act: (...given: Given) => Result,
): (...given: Given) => Result {
  let calls = 0;
  return (...given) => ((calls += 1) > count ? fail() : act(...given));
}

const failing: readonly [string, (session: DraftSession) => Partial<DraftSession>][] = [
  ['reads the prompt', () => ({ catchUp: () => Promise.reject(new MistletoeError('drafter', 'NaN')) })],
  ['observes the prompt', () => ({ observe: fail })],
  ['observes a step', (session) => ({ observe: failAfter(2, session.observe.bind(session)) })],
  ['proposes at once', () => ({ propose: fail })],
  ['proposes later', (session) => ({ propose: failAfter(2, session.propose.bind(session)) })],
];

describe('a drafter that fails', () => {
  it.each(failing)('where it %s leaves the answer to plain decoding', async (_, change) => {
    const startBytes = memory.liveBytes;
    const notices: string[] = [];
    const broken = changeSessions(drafters[0]!, change);
    const { tokenIds } = await decodePlain(target, requestFor(0));
    const answer = await decode(0, broken, { onNotice: (message) => notices.push(message) });
    expect(answer).toMatchObject({ tokenIds, drafterFailed: true });
    expect(notices).toEqual([expect.stringMatching(/The answer continues with plain decoding\.$/)]);
    await expect(decode(0, broken, { mustDraft: true })).rejects.toThrow(/NaN/);
    expect(memory.liveBytes).toBe(startBytes);
  });
});

describe('a sequence that fails', () => {
  const refuse = (): never => {
    throw new Error('The listener is gone.');
  };
  it.each<[string, (engine: Engine) => Promise<unknown>]>([
    ['drafts and must', (engine) => decode(1, changeSessions(drafters[0]!, failing[4]![1]), { engine, mustDraft: true })], // prettier-ignore
    ['reports its first token', (engine) => decode(1, drafters[0]!, { engine, onToken: refuse })],
    ['reports a later token', (engine) => decode(1, drafters[0]!, { engine, onToken: failAfter(4, () => undefined) })], // prettier-ignore
    ['reports a step', (engine) => decode(1, drafters[0]!, { engine, onStep: refuse })],
    ['reads its prompt', (engine) => decode(1, drafters[0]!, { engine, promptIds: [tiny.vocabularySize] })],
  ])('where it %s leaves the others of its batch as they are', async (_, decodeBad) => {
    const startBytes = memory.liveBytes;
    const alone = await Promise.all([0, 2].map((index) => decode(index, drafters[0]!)));
    const engine = new Engine();
    const [bad, ...others] = await Promise.allSettled([
      decodeBad(engine),
      ...[0, 2].map((index) => decode(index, drafters[0]!, { engine })),
    ]);
    expect(bad.status).toBe('rejected');
    expect(others).toMatchObject(
      alone.map(({ tokenIds, acceptance }) => ({ value: { tokenIds, acceptance } })),
    );
    expect(memory.liveBytes).toBe(startBytes);
  });
});

describe('an answer ends', () => {
  it('wherever it is aborted', async () => {
    const startBytes = memory.liveBytes;
    const long = { promptIds: randomTokens('long', 300, tiny.vocabularySize) };
    const whole = await decode(0, drafters[0]!);
    const early = await decode(0, drafters[0]!, { signal: AbortSignal.abort() });
    expect(early).toMatchObject({ tokenIds: [], finishReason: 'aborted', acceptance: { steps: 0 } });
    // Between the two chunks of its prompt.
    const during = new AbortController();
    const stopped = changeSessions(drafters[0]!, (session) => ({
      observe(verified) {
        session.observe(verified);
        during.abort();
      },
    }));
    if (target.configuration.contextLength > 300)
      expect(await decode(0, stopped, { ...long, signal: during.signal })).toMatchObject({
        tokenIds: [],
        finishReason: 'aborted',
      });
    for (let count = 1; count < whole.tokenIds.length; count++) {
      const stop = new AbortController();
      let seen = 0;
      const onToken = (): void => {
        if ((seen += 1) === count) stop.abort();
      };
      const { finishReason, tokenIds } = await decode(0, drafters[0]!, { signal: stop.signal, onToken });
      expect(['aborted', 'length']).toContain(finishReason);
      expect(tokenIds).toEqual(whole.tokenIds.slice(0, tokenIds.length));
      expect(tokenIds.length).toBeLessThanOrEqual(count + 1);
    }
    expect(memory.liveBytes).toBe(startBytes);
  });

  it.each([0, 1, 2, 3, 4, 5, 6, 7])('where the context is full, %i tokens before', async (room) => {
    const { contextLength } = target.configuration;
    const promptIds = randomTokens('full', contextLength - room, tiny.vocabularySize);
    const request = { promptIds, maxNewTokens: 20 };
    const plain = await decodePlain(target, { ...requestFor(0), ...request });
    expect(plain).toMatchObject({ finishReason: 'context' });
    expect(plain.tokenIds).toHaveLength(room + 1);
    for (const drafter of drafters) {
      const { tokenIds, finishReason } = await decode(0, drafter, request);
      expect({ tokenIds, finishReason }).toEqual({ tokenIds: plain.tokenIds, finishReason: 'context' });
    }
  });
});

it('draws no random numbers but from named streams', async () => {
  const drawn = vi.spyOn(Math, 'random').mockImplementation(() => {
    throw new Error('Math.random was called.');
  });
  try {
    for (const drafter of drafters) {
      const sampled = { sampling: { temperature: 1 } };
      const answer = await decode(3, drafter, sampled);
      expect((await decode(3, drafter, sampled)).tokenIds).toEqual(answer.tokenIds);
      expect((await decode(3, drafter, { ...sampled, seed: 99 })).tokenIds).not.toEqual(answer.tokenIds);
    }
  } finally {
    drawn.mockRestore();
  }
});

it('leaves no buffers behind after 1,000 steps of batches with 20 failures', async () => {
  const startBytes = memory.liveBytes;
  const random = createRandom('failures');
  const engine = new Engine();
  let [injected, failed, steps] = [0, 0, 0];
  const onStep = (): void => {
    steps += 1;
    if (steps % 40 !== 0 || injected === 20) return;
    injected += 1;
    // Passes of a batch are tried again one by one.
    failures.left = 1 + random.nextInteger(4);
    const code = injected % 2 === 0 ? 'drafter' : 'runtime';
    failures.create = () => new MistletoeError(code, 'The pass failed.');
  };
  for (let index = 0; steps < 1000; index += 4) {
    const answers = Array.from({ length: 4 }, (_, place) => {
      const drafter = drafters[place % drafters.length]!;
      const sampling = { temperature: (index / 4) % 2 };
      return decode(index + place, drafter, { engine, onStep, sampling, promptIds: [1 + place, 2, 3] });
    });
    for (const { status } of await Promise.allSettled(answers)) failed += Number(status === 'rejected');
    await nextTurn();
    expect(memory.liveBytes - startBytes, `after ${steps} steps and ${injected} failures`).toBe(0);
  }
  expect(injected).toBe(20);
  expect(failed).toBeGreaterThan(2);
});
