/** A simplified graph gives the values that the graph gives: on every case of a runtime, and on random graphs. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Dimension } from '../../src/graph/dimension.js';
import { countElements, equalDimensions, evaluateDimension, symbol } from '../../src/graph/dimension.js';
import { gradient } from '../../src/graph/gradient.js';
import { attention, rotate } from '../../src/graph/operations/attention.js';
import { contract } from '../../src/graph/operations/contraction.js';
import * as elementwise from '../../src/graph/operations/elementwise.js';
import { gatherRows, scatterAddRows } from '../../src/graph/operations/indexing.js';
import { constant, input, type Tensor, sortTopologically } from '../../src/graph/tensor.js';
import { reduceMaximum, softmax, sum } from '../../src/graph/operations/reductions.js';
import * as shaping from '../../src/graph/operations/shaping.js';
import { type RewriteRule, simplify } from '../../src/graph/simplify.js';
import { createInterpreter } from '../oracle/interpreter.js';
import { onnxForms } from '../../src/runtime/onnx/onnx-forms.js';
import type { NamedTensors } from '../../src/runtime/program.js';
import type { WeightStore } from '../../src/runtime/weights.js';
import { type Draw, type Sizes, drawValues, runtimeCases } from './runtime-cases.js';
import { expectClose } from './runtime-comparison.js';

const oracle = createInterpreter();
const allForms: readonly (readonly [string, readonly RewriteRule[]])[] = [
  ['as such', []],
  ['for ONNX Runtime', onnxForms],
];

async function expectSameValues(
  outputs: NamedTensors,
  forms: readonly RewriteRule[],
  sizes: Sizes,
  given: { readonly draws?: Readonly<Record<string, Draw>>; readonly weights?: readonly WeightStore[] } = {},
): Promise<void> {
  const inputs = drawValues(outputs, sizes, given.draws ?? {}, 'simplify');
  const [expected, found] = await Promise.all(
    // The inputs stand beside it, so that no length is lost with a node that read it.
    [outputs, { ...simplify(outputs, forms), ...inputsOf(outputs) }].map(async (graph) =>
      (await oracle.compile(graph, given.weights)).run(inputs),
    ),
  );
  const wanted = Object.fromEntries(Object.keys(outputs).map((name) => [name, found![name]!]));
  expectClose(wanted, expected!, { relative: 1e-6, absolute: 1e-6 });
}

const inputsOf = (outputs: NamedTensors): NamedTensors =>
  Object.fromEntries(
    sortTopologically(Object.values(outputs)).flatMap((tensor) =>
      tensor.operation === 'input' ? [[`input ${tensor.attributes.name}`, tensor]] : [],
    ),
  );

describe.each(allForms)('every operation simplified %s', (_, forms) => {
  it.each(runtimeCases)('$name', async ({ output, sizes, draws, weights }) => {
    for (const size of sizes) await expectSameValues({ output }, forms, size, { draws, weights });
  });
});

/** Numbers by which a random graph grows: what is done, to which of the tensors so far, and how. */
const steps = fc.array(fc.array(fc.nat(1000), { minLength: 4, maxLength: 4 }), {
  minLength: 1,
  maxLength: 14,
});

const [n, m] = [symbol('n'), symbol('m')];
const mostValues = 400;
const sizes: Sizes = { n: 2, m: 3 };
const sizeOf = (dimension: Dimension): number =>
  evaluateDimension(dimension, new Map(Object.entries(sizes)))!;
const indicesOf = (x: Tensor, ...indices: number[]): Tensor =>
  constant(
    indices.map((index) => index % sizeOf(x.shape[0]!)),
    [indices.length],
    'int32',
  );

/** Every way to grow a graph; a step that does not fit the tensors it meets is refused by the graph and left out. */
const growths: readonly ((a: Tensor, b: Tensor, p: number, q: number) => Tensor)[] = [
  (a) => elementwise.sigmoid(a),
  (a) => elementwise.stopGradient(a),
  (a) => softmax(a),
  (a) => reduceMaximum(a),
  (a, b) => elementwise.add(a, b),
  (a, b) => elementwise.multiply(a, b),
  (a, b) => elementwise.select(elementwise.greater(a, b), a, b),
  (a) => elementwise.cast(elementwise.cast(a, 'float32'), 'float32'),
  (a, _, p) => sum(a, [p % a.shape.length]),
  (a, _, p) => shaping.transpose(a, permutation(a.shape.length, p)),
  (a, _, p, q) =>
    shaping.transpose(shaping.transpose(a, permutation(a.shape.length, p)), permutation(a.shape.length, q)),
  (a, _, p) =>
    shaping.reshape(
      a,
      [...permutation(a.shape.length, p)].map((axis) => a.shape[axis]!),
    ),
  (a, _, p) => shaping.reshape(a, a.shape.toSpliced(p % (a.shape.length + 1), 0, 1)),
  (a) => shaping.reshape(a, [countElements(a.shape)]),
  (a, _, p) =>
    shaping.reshape(
      a,
      a.shape.filter((size, axis) => size !== 1 || axis === p),
    ),
  (a, _, p, q) => shaping.slice(a, p % a.shape.length, q % 2, a.shape[p % a.shape.length]),
  (a, _, p, q) => shaping.pad(a, p % a.shape.length, q % 2, (q >> 1) % 2),
  (a) => shaping.broadcast(a, [2, ...a.shape]),
  (a, b, p) => shaping.concatenate([a, b, a], p % a.shape.length),
  (a, b, p, q) => contractRandomly(a, b, p, q),
  (a, _, p) => gatherRows(a, indicesOf(a, 0, p, 0)),
  (a) => scatterAddRows(a, indicesOf(a, 1, 0, 1), gatherRows(a, indicesOf(a, 0, 0, 1))),
  (a) => {
    const flat = shaping.reshape(a, [1, countElements(a.shape), 1, 1]);
    const heads = shaping.broadcast(flat, [1, countElements(a.shape), 1, 2]);
    const angles = constant([0.6], [1, 1]);
    const repeated = shaping.broadcast(angles, [countElements(a.shape), 1]);
    return rotate(heads, repeated, elementwise.negate(repeated));
  },
  (a, b) => {
    const rows = (x: Tensor): Tensor => shaping.reshape(x, [1, countElements(x.shape), 1, 1]);
    const mask = shaping.broadcast(constant(0), [countElements(a.shape), countElements(b.shape)]);
    const segments = [{ kind: 'own' as const, keys: rows(b), values: elementwise.negate(rows(b)) }];
    return attention(rows(a), segments, mask, { heads: 1, keyValueHeads: 1, scale: 0.5 });
  },
];

function permutation(length: number, seed: number): number[] {
  const left = Array.from({ length }, (_, axis) => axis);
  return Array.from({ length }, (_, at) => left.splice((seed >> at) % left.length, 1)[0]!);
}

/** Axes of one length are matched where the bits say so; the rest stands in the output, in any order. */
function contractRandomly(a: Tensor, b: Tensor, p: number, q: number): Tensor {
  const left = a.shape.map((_, axis) => `l${axis}`);
  const right = b.shape.map((size, axis) => {
    const match = a.shape.findIndex(
      (own, at) => equalDimensions(own, size) && ((p >> (at + axis)) & 1) === 1,
    );
    return match < 0 ? `r${axis}` : `l${match}`;
  });
  const shared = left.filter((name) => right.includes(name));
  const all = [...new Set([...left, ...right])];
  const output = all.filter((name) => !shared.includes(name) || ((q >> shared.indexOf(name)) & 1) === 1);
  const ordered = permutation(output.length, q).map((at) => output[at]!);
  return contract(a, b, `${left.join(' ')}, ${right.join(' ')} -> ${ordered.join(' ')}`, 0.5);
}

function growGraph(choices: readonly (readonly number[])[]): readonly Tensor[] {
  const tensors: Tensor[] = [input('x', [n, m]), input('y', [m, 1, n]), input('z', [2, n])];
  for (const [growth, first, second, how] of choices) {
    // Mostly one of the newest, so that operations meet that fold into each other.
    const [a, b] = [tensors.at(-1 - (first! % 3))!, tensors[second! % tensors.length]!];
    try {
      const grown = growths[growth! % growths.length]!(a, b, how!, second!);
      const count = sizeOf(countElements(grown.shape));
      if (count > 0 && count <= mostValues) tensors.push(grown);
    } catch {
      continue;
    }
  }
  return tensors;
}

describe.each(allForms)('random graphs simplified %s', (_, forms) => {
  it('give the same values, and their gradients too', async () => {
    let grown = 0;
    await fc.assert(
      fc.asyncProperty(steps, async (choices) => {
        const tensors = growGraph(choices);
        grown += tensors.length - 3;
        const last = tensors.at(-1)!;
        const loss = shaping.reshape(
          sum(
            last,
            last.shape.map((_, axis) => axis),
          ),
          [],
        );
        const outputs = {
          ...Object.fromEntries(tensors.map((tensor, index) => [`t${index}`, tensor])),
          gradient: gradient(loss, [tensors[0]!])[0]!,
        };
        await expectSameValues(outputs, forms, sizes);
      }),
      { numRuns: 200, seed: 11 },
    );
    // Refused steps must not be the rule.
    expect(grown).toBeGreaterThan(600);
  });

  it('has no more nodes than the graph, if no forms are asked for', () => {
    if (forms.length > 0) return;
    fc.assert(
      fc.property(steps, (choices) => {
        const outputs = Object.fromEntries(growGraph(choices).entries());
        const count = (graph: NamedTensors): number => sortTopologically(Object.values(graph)).length;
        // A table of zeros may stand in for the one that a scatter no longer reads.
        const scatters = sortTopologically(Object.values(outputs)).filter(
          ({ operation }) => operation === 'scatterAddRows',
        );
        expect(count(simplify(outputs))).toBeLessThanOrEqual(count(outputs) + 2 * scatters.length);
      }),
      { numRuns: 150, seed: 12 },
    );
  });
});
