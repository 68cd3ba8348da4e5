/**
 * A target with a router and experts: speculative answers are its own, alone and in batches, on the host and on an
 * emulated GPU; gradients reach the embeddings through the router's weights and the experts.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRandom } from '../../src/core/random.js';
import { Engine } from '../../src/decode/engine.js';
import { decodePlain } from '../../src/decode/generate.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import { gradient } from '../../src/graph/gradient.js';
import { multiply } from '../../src/graph/operations/elementwise.js';
import { input } from '../../src/graph/tensor.js';
import { sum } from '../../src/graph/operations/reductions.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import { mixExperts, type Experts } from '../../src/model/experts.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { float32 } from '../../src/runtime/program.js';
import type { WeightStore } from '../../src/runtime/weights.js';
import { interpret } from '../oracle/interpreter.js';
import { createEmulatedDevice } from '../support/emulated-device.js';
import { describeEmulated } from '../support/emulated-suite.js';
import { byTier, isFullTier } from '../support/tier.js';
import { briefSettings, TinyAudits, tinySettings } from '../support/tiny-audit.js';
import { gaussian, tiny, writeMixture } from '../support/tiny-checkpoints.js';
import { drafterVariants, ngramVariant } from '../support/tiny-drafters.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';

const greedy = {
  maxNewTokens: byTier({ quick: 16, full: 10 }),
  stopIds: [],
  sampling: { temperature: 0 },
  seed: 0,
};
const requestOf = (index: number) => ({
  ...greedy,
  promptIds: randomTokens(`experts ${index}`, 4 + (index % 12), tiny.vocabularySize),
});

describe('a target with experts', () => {
  const models = new TinyModels(tiny);
  afterAll(() => models.dispose());
  let target: CausalModel;
  beforeAll(async () => {
    target = await models.loadModel(writeMixture(models.freshFolder(), tiny));
  });

  /** By prompt: every case has the same ones. */
  const plainAnswers = new Map<number, readonly number[]>();
  async function answerPlainly(index: number): Promise<readonly number[]> {
    const answer = plainAnswers.get(index) ?? (await decodePlain(target, requestOf(index))).tokenIds;
    plainAnswers.set(index, answer);
    return answer;
  }

  const cases = [
    ['ngram', 'chain:3'],
    ['draft model', 'chain:3'],
    ['EAGLE-3 with d2t', 'dynamic:12,2,3'],
    ['DFlash', 'chain:3'],
  ] as const;
  it.each(cases)('answers as plain decoding does, alone and in batches: %s, %s', async (name, text) => {
    const variant = [...drafterVariants, ngramVariant].find((other) => other.name === name)!;
    const drafter = await models.loadDrafter(variant.write(models.freshFolder(), tiny), target);
    const policy = always(resolveText(text, drafter));
    const engine = new Engine({ concurrency: 5 });
    const prompts = Array.from({ length: byTier({ quick: 5, full: 100 }) }, (_, index) => index);
    const together = await Promise.all(
      prompts.map((index) =>
        engine.run(() => decodeSpeculative(target, drafter, { ...requestOf(index), policy, engine })),
      ),
    );
    let accepted = 0;
    for (const index of prompts) {
      const plain = await answerPlainly(index);
      const alone = await decodeSpeculative(target, drafter, { ...requestOf(index), policy });
      expect(alone.tokenIds).toEqual(plain);
      expect(together[index]!.tokenIds).toEqual(plain);
      accepted += alone.acceptance.accepted;
    }
    expect(accepted).toBeGreaterThan(0);
  });

  it.runIf(!isFullTier)('is audited', async () => {
    const audits = new TinyAudits(tiny);
    writeMixture(audits.targetFolder, tiny);
    const plan = audits.plan([audits.writeDrafter('EAGLE-3 with d2t')], ['abcdefgh'], {
      settings: { ...briefSettings, maxNewTokens: 12 },
    });
    const [drafter] = (await audits.complete(plan)).drafters;
    expect(drafter!.summary.promptsAudited).toBe(1);
    const attack = drafter!.prompts[0]!.arms.find(({ arm }) => arm === 'attack')!;
    expect(attack.preservation.divergence).toBeLessThanOrEqual(tinySettings.epsilon);
    await audits.dispose();
  });

  it.runIf(!isFullTier)('is refused in few bits', async () => {
    const runtime = createOnnxRuntime({ threads: 1, quantization: 'int8' });
    const few = new TinyModels(tiny, runtime);
    const model = await few.loadModel(writeMixture(few.freshFolder(), tiny));
    await expect(model.prepare()).rejects.toThrow('--dtype int8 does not support models with experts');
    await few.dispose();
  });
});

describeEmulated('a target with experts on CUDA', () => {
  it.runIf(isFullTier)('answers as on the host', async () => {
    const [onHost, onDevice] = [
      new TinyModels(tiny),
      new TinyModels(tiny, createCudaRuntime(createEmulatedDevice())),
    ];
    const folder = writeMixture(onHost.freshFolder(), tiny);
    const head = drafterVariants.find(({ name }) => name === 'EAGLE-3 with d2t')!;
    const headFolder = head.write(onHost.freshFolder(), tiny);
    const request = { ...requestOf(7), maxNewTokens: 6 };
    const { tokenIds } = await decodePlain(await onHost.loadModel(folder), request);
    const target = await onDevice.loadModel(folder);
    expect((await decodePlain(target, request)).tokenIds).toEqual(tokenIds);
    const drafter = await onDevice.loadDrafter(headFolder, target);
    const policy = always(resolveText('chain:3', drafter));
    expect((await decodeSpeculative(target, drafter, { ...request, policy })).tokenIds).toEqual(tokenIds);
    await onHost.dispose();
    await onDevice.dispose();
  });
});

describe.each([true, false])(
  'gradients of experts, weights divided by their sum: %s',
  (normalizesWeights) => {
    const experts: Experts = {
      ...{ count: 5, perToken: 2, intermediateSize: 3, normalizesWeights, step: 1, denseLayers: [] },
    };
    const [positions, hidden] = [4, 6];
    const random = createRandom('gradients of experts');
    const draw = (...shape: number[]) => ({
      shape,
      data: Float32Array.from({ length: shape.reduce((a, b) => a * b) }, () => gaussian(random)),
    });
    const tensors = {
      'mlp.gate.weight': draw(hidden, 5),
      'mlp.experts.gate_up.weight': draw(hidden, 5 * 2 * 3),
      'mlp.experts.down.weight': draw(3, 5 * hidden),
    };
    const values = { x: draw(1, positions, hidden), weights: draw(1, positions, hidden) };
    const widen = ({ shape, data }: { shape: readonly number[]; data: Float32Array }) => ({
      ...{ shape, data: Float64Array.from(data) },
    });
    const known = Object.fromEntries(Object.entries(tensors).map(([name, value]) => [name, widen(value)]));
    const wide = { x: widen(values.x), weights: widen(values.weights) };
    const x = input('x', [1, positions, hidden]);
    const loss = sum(multiply(mixExperts(x, 'mlp', experts), input('weights', x.shape)), [0, 1, 2]);
    const [byX] = gradient(loss, [x]);

    it('are those of finite differences', () => {
      const found = interpret({ byX: byX! }, wide, known).byX!.data;
      const lossAt = (place: number, step: number): number => {
        const data = wide.x.data.with(place, wide.x.data[place]! + step);
        return interpret({ loss }, { ...wide, x: { ...wide.x, data } }, known).loss!.data[0]!;
      };
      for (const place of found.keys()) {
        const slope = (lossAt(place, 1e-6) - lossAt(place, -1e-6)) / 2e-6;
        expect(Math.abs(found[place]! - slope)).toBeLessThan(1e-6 * (1 + Math.abs(slope)));
      }
    });

    it('are the same in ONNX Runtime', async () => {
      const runtime = createOnnxRuntime({ threads: 1 });
      const store: WeightStore = { kind: 'memory', tensors: new Map(Object.entries(tensors)) };
      const program = await runtime.compile({ byX: byX! }, [store]);
      const inputs = {
        x: float32(values.x.data, values.x.shape),
        weights: float32(values.weights.data, values.weights.shape),
      };
      const { byX: found } = await program.run(inputs);
      const expected = interpret({ byX: byX! }, wide, known).byX!.data;
      expected.forEach((value, place) => {
        expect(Math.abs(Number(found!.data[place]) - value)).toBeLessThan(1e-4 * (1 + Math.abs(value)));
      });
      await runtime.dispose();
    });
  },
);
