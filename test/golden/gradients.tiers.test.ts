import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildForcedPass, embedOneHotSuffix } from '../../src/audit/search/forced-pass.js';
import { passInputs, readPromptState } from '../../src/audit/search/prompt-state.js';
import type { Drafter } from '../../src/draft/drafter.js';
import { loadDrafter } from '../../src/draft/systems.js';
import { gradient } from '../../src/graph/gradient.js';
import { exponential, multiply, subtract } from '../../src/graph/operations/elementwise.js';
import { gatherRows } from '../../src/graph/operations/indexing.js';
import { constant, input, type Tensor } from '../../src/graph/tensor.js';
import { logSoftmax, mean, sum } from '../../src/graph/operations/reductions.js';
import { reshape, slice, transpose } from '../../src/graph/operations/shaping.js';
import { type CausalModel, loadModel } from '../../src/model/causal-model.js';
import { type NamedValues, float32, floatsOf, int32 } from '../../src/runtime/program.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { DrafterName, GoldenGradient, GoldenGradients } from '../support/golden.js';
import { readGoldenPrompts, relativeError } from '../support/golden.js';
import { referenceModels } from '../support/model-folders.js';
import { byTier, casesOfTier } from '../support/tier.js';

const runtime = createOnnxRuntime();
afterAll(() => runtime.dispose());
const vocabularySize = 4096;
const golden = readGoldenPrompts().flatMap(({ prompt, gradients }) =>
  gradients === undefined ? [] : [{ prompt, gradients }],
);
/** The quick tier has one prompt of each. */
const drafters: readonly DrafterName[] = ['sps', 'medusa', 'hydra', 'eagle', 'eagle3'];
/** A drafter without a cache of its own, for passes of the target alone. */
let reader: Drafter;

/** Mean over rows of sum p (log p - log q). [1, row, token] each */
function meanDivergence(logP: Tensor, logQ: Tensor): Tensor {
  const divergence = sum(multiply(exponential(logP), subtract(logP, logQ)), [-1]);
  return reshape(mean(divergence, [1]), []);
}

/** Columns of the target's distribution that the drafter can propose. */
function restrict(distribution: Tensor, targetTokens: Int32Array | undefined): Tensor {
  if (targetTokens === undefined) return distribution;
  const columns = constant(Array.from(targetTokens), [targetTokens.length], 'int32');
  return transpose(gatherRows(transpose(distribution, [2, 0, 1]), columns), [1, 2, 0]);
}

async function cleanDistribution(target: CausalModel, prompt: GoldenGradients): Promise<Float32Array> {
  const ids = [...prompt.prompt_ids, ...prompt.tail_ids, ...prompt.clean_continuation];
  const window = prompt.clean_continuation.length;
  const first = prompt.prompt_ids.length + prompt.tail_ids.length - 1;
  const select = Int32Array.from({ length: window }, (_, row) => first + row);
  const tokens = Int32Array.from(ids);
  const { logits } = await target.forward({ tokens, cache: target.createCache(), select, want: ['logits'] });
  return logits!;
}

async function lossAndGradient(
  target: CausalModel,
  drafter: Drafter | undefined,
  prompt: GoldenGradients,
): Promise<{ loss: number; gradient: Float32Array }> {
  const suffixLength = prompt.suffix_ids.length;
  const window = prompt.clean_continuation.length;
  const rows = suffixLength + prompt.tail_ids.length + window;
  const oneHot = input('oneHot', [suffixLength, vocabularySize]);
  const embedWith = embedOneHotSuffix(oneHot);
  const pass = buildForcedPass({ target, drafter, window, embedWith, depth: drafter === undefined ? 0 : 1 });
  const targetDistribution = logSoftmax(pass.targetLogits);
  const loss =
    drafter === undefined
      ? meanDivergence(logSoftmax(input('clean', [1, window, vocabularySize])), targetDistribution)
      : meanDivergence(
          restrict(slice(targetDistribution, 1, 1), drafter.graph!.targetTokens),
          logSoftmax(pass.draftLogits[0]!),
        );
  const [byOneHot] = gradient(loss, [oneHot]);
  const program = await runtime.compile({ loss, gradient: byOneHot! }, [
    target.weights,
    ...(drafter?.graph!.weights ?? []),
  ]);
  const state = await readPromptState({ target, drafter: drafter ?? reader }, prompt.prompt_ids);
  const hot = new Float32Array(suffixLength * vocabularySize);
  prompt.suffix_ids.forEach((id, row) => (hot[row * vocabularySize + id] = 1));
  const needed = new Set(program.inputs.map(({ name }) => name));
  const all: NamedValues = {
    oneHot: float32(hot, [suffixLength, vocabularySize]),
    first: int32([state.lastToken]),
    rest: int32([...prompt.tail_ids, ...prompt.clean_continuation.slice(0, -1)]),
    clean: float32(await cleanDistribution(target, prompt), [1, window, vocabularySize]),
    ...passInputs(state, { target, drafter }, rows),
  };
  const outputs = await program.run(
    Object.fromEntries(Object.entries(all).filter(([name]) => needed.has(name))),
  );
  return { loss: floatsOf(outputs, 'loss')[0]!, gradient: floatsOf(outputs, 'gradient') };
}

function expectGradient(
  found: { loss: number; gradient: Float32Array },
  expected: GoldenGradient,
  tolerance: number,
): void {
  expect(Math.abs(found.loss / expected.loss - 1)).toBeLessThan(1e-3);
  expect(Math.abs(Math.hypot(...found.gradient) / expected.gradient_norm - 1)).toBeLessThan(tolerance);
  const rowNorms = expected.row_norms.map((_, row) =>
    Math.hypot(...found.gradient.subarray(row * vocabularySize, (row + 1) * vocabularySize)),
  );
  expect(relativeError(rowNorms, expected.row_norms)).toBeLessThan(tolerance);
  const entries = expected.entries.map(([row, token]) => found.gradient[row * vocabularySize + token]!);
  expect(
    relativeError(
      entries,
      expected.entries.map(([, , value]) => value),
    ),
  ).toBeLessThan(tolerance);
  expected.most_negative_per_row.forEach((token, row) => {
    const values = found.gradient.subarray(row * vocabularySize, (row + 1) * vocabularySize);
    expect(values.indexOf(Math.min(...values)), `row ${row}`).toBe(token);
  });
}

describe('gradients through target and drafter against PyTorch', () => {
  let target: CausalModel;
  beforeAll(async () => {
    target = await loadModel(resolve(referenceModels, 'target'), { runtime });
    reader = await loadDrafter(resolve(referenceModels, 'medusa'), { target });
  });

  it.runIf(byTier({ quick: true, full: false }))(
    'are there for the prompts with an answer long enough',
    () => {
      expect(golden).toHaveLength(4);
    },
  );

  it.each(casesOfTier(golden, (prompt) => golden.indexOf(prompt) < 2))(
    'preservation of "$prompt"',
    async ({ gradients }) => {
      expectGradient(await lossAndGradient(target, undefined, gradients), gradients.preservation, 1e-3);
    },
  );

  describe.each(drafters)('%s', (name) => {
    let drafter: Drafter;
    beforeAll(async () => {
      drafter = await loadDrafter(resolve(referenceModels, name), { target });
    });

    it.each(
      casesOfTier(golden, (prompt) => golden.indexOf(prompt) === drafters.indexOf(name) % golden.length),
    )('disagreement on "$prompt"', async ({ gradients }) => {
      expectGradient(await lossAndGradient(target, drafter, gradients), gradients[name], 1e-3);
    });
  });
});
