import { describe, expect, it } from 'vitest';
import { symbol } from '../../graph/dimension.js';
import { matmul } from '../../graph/operations/contraction.js';
import { add, multiply } from '../../graph/operations/elementwise.js';
import { input, weight, type Tensor, sortTopologically } from '../../graph/tensor.js';
import { logSoftmax, rmsNorm, softmax, sum } from '../../graph/operations/reductions.js';
import { concatenate, reshape, slice } from '../../graph/operations/shaping.js';
import { weightGradients } from '../../graph/gradient.js';
import { createInterpreter } from '../../../test/oracle/interpreter.js';
import { float32 } from '../../runtime/program.js';
import type { WeightStore } from '../../runtime/weights.js';
import { shareFrozenProducts } from './frozen-products.js';

const width = 3;
const rows = symbol('row');
const [embeddings, features] = [input('embeddings', [2, rows, width]), input('features', [2, rows, width])];
const names = ['scale', 'project', 'feed'];

/** Two levels, each reading the embeddings from another row on, as a head does that drafts along a text. */
function buildLoss(): Tensor {
  const project = weight('project', [2 * width, 2]);
  const level = (states: Tensor, first: number): Tensor => {
    const tokens = slice(embeddings, 1, first, first + 2);
    const joined = concatenate([rmsNorm(tokens, weight('scale', [width]), 1e-5), states], -1);
    return matmul(joined, project);
  };
  const states = matmul(slice(features, 1, 0, 2), weight('feed', [width, width]));
  const one = level(states, 1);
  const two = level(matmul(one, weight('back', [2, width])), 2);
  const squares = add(multiply(one, one), multiply(two, two));
  return reshape(sum(squares, [0, 1, 2]), [1]);
}

const values = (length: number, seed: number): Float32Array =>
  Float32Array.from({ length }, (_, index) => Math.sin(seed + 1.7 * index));
const store: WeightStore = {
  kind: 'memory',
  tensors: new Map([
    ['scale', { shape: [width], data: values(width, 1) }],
    ['project', { shape: [2 * width, 2], data: values(4 * width, 2) }],
    ['feed', { shape: [width, width], data: values(width * width, 3) }],
    ['back', { shape: [2, width], data: values(2 * width, 4) }],
  ]),
};
const inputs = {
  embeddings: float32(values(2 * 4 * width, 5), [2, 4, width]),
  features: float32(values(2 * 4 * width, 6), [2, 4, width]),
};

async function evaluate(loss: Tensor): Promise<Record<string, number[]>> {
  const outputs = { loss, ...Object.fromEntries(weightGradients(loss, names)) };
  const results = await (await createInterpreter().compile(outputs, [store])).run(inputs);
  return Object.fromEntries(Object.entries(results).map(([name, { data }]) => [name, [...data].map(Number)]));
}

describe('products with frozen rows', () => {
  const loss = buildLoss();
  const shared = shareFrozenProducts({ loss }, new Set(names)).loss!;

  it('give the same loss and gradients', async () => {
    const [found, expected] = [await evaluate(shared), await evaluate(loss)];
    for (const [name, list] of Object.entries(expected))
      list.forEach((value, index) => {
        expect(found[name]![index], `${name} ${index}`).toBeCloseTo(value, 4);
      });
  });

  it('are computed once for all levels, from all rows', () => {
    const products = sortTopologically([shared]).filter(
      ({ operation, inputs: [left] }) => operation === 'contract' && left!.operation === 'rmsNorm',
    );
    expect(products).toHaveLength(1);
    expect(products[0]!.shape).toEqual([2, rows, 2]);
  });

  it('stay as they are where every row learns', () => {
    const all = new Set([...names, 'back']);
    const plain = reshape(sum(matmul(features, weight('feed', [width, width])), [0, 1, 2]), [1]);
    expect(shareFrozenProducts({ plain }, all).plain).toEqual(plain);
  });
});

describe('cross-entropies of several levels with one distribution', () => {
  const vocabulary = 5;
  const output = weight('output', [width, vocabulary]);
  const taught = softmax(input('taught', [2, rows, vocabulary]));

  /** Level d reads the distribution from row d on, and counts its rows differently. */
  function entropyOf(level: number): Tensor {
    const states = matmul(slice(features, 1, 0, 4 - level), weight('feed', [width, width]));
    const scores = logSoftmax(matmul(states, output));
    const rowSums = sum(multiply(slice(taught, 1, level, 4), scores), [-1]);
    return reshape(multiply(sum(multiply(rowSums, rowSums), [0, 1, 2]), level + 1), [1]);
  }

  const several = add(add(entropyOf(0), entropyOf(1)), entropyOf(2));
  const trained = ['feed', 'output'];
  const learned: WeightStore = {
    kind: 'memory',
    tensors: new Map([
      ['feed', { shape: [width, width], data: values(width * width, 3) }],
      ['output', { shape: [width, vocabulary], data: values(width * vocabulary, 7) }],
    ]),
  };

  async function evaluateLearned(loss: Tensor): Promise<Record<string, number[]>> {
    const outputs = { loss, ...Object.fromEntries(weightGradients(loss, trained)) };
    const program = await createInterpreter().compile(outputs, [learned]);
    const given = { ...inputs, taught: float32(values(2 * 4 * vocabulary, 8), [2, 4, vocabulary]) };
    const results = await program.run(
      Object.fromEntries(program.inputs.map(({ name }) => [name, given[name as keyof typeof given]])),
    );
    return Object.fromEntries(
      Object.entries(results).map(([name, { data }]) => [name, [...data].map(Number)]),
    );
  }

  it('have the same value and gradients without a logarithm of every probability', async () => {
    const shared = shareFrozenProducts({ several }, new Set(trained)).several!;
    const operations = sortTopologically([shared]).map(({ operation }) => operation);
    expect(operations).not.toContain('logSoftmax');
    const [found, expected] = [await evaluateLearned(shared), await evaluateLearned(several)];
    for (const [name, list] of Object.entries(expected))
      list.forEach((value, index) => {
        expect(found[name]![index], `${name} ${index}`).toBeCloseTo(value, 4);
      });
  });

  it('multiply the distribution with the matrix once', () => {
    const shared = shareFrozenProducts({ several }, new Set(trained)).several!;
    const products = sortTopologically([shared]).filter(
      ({ operation, inputs: [left] }) => operation === 'contract' && left === taught,
    );
    expect(products).toHaveLength(1);
  });

  it('keep the logarithm where a part of the distribution counts, which does not sum to 1', () => {
    const names = ['some', 'others'];
    const parts = names.map((name) => {
      const scores = logSoftmax(matmul(features, weight(name, [width, 3])));
      return sum(sum(multiply(slice(taught, 2, 0, 3), scores), [-1]), [0, 1, 2]);
    });
    const shared = shareFrozenProducts({ loss: add(parts[0]!, parts[1]!) }, new Set(names)).loss!;
    expect(sortTopologically([shared]).map(({ operation }) => operation)).toContain('logSoftmax');
  });

  it('keep the logarithm where only one level learns', () => {
    const shared = shareFrozenProducts({ one: entropyOf(1) }, new Set(trained)).one!;
    expect(sortTopologically([shared]).map(({ operation }) => operation)).toContain('logSoftmax');
  });
});
