/**
 * Every kind of layer state can take back: after any part of a draft tree was kept, or none, forks went on by
 * themselves, and other sequences were read in the same pass, a layer gives what it gives for the whole text at once.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SharedPasses } from '../../src/decode/shared-passes.js';
import { pathTo } from '../../src/draft/tree/token-tree.js';
import type { KvCache } from '../../src/model/cache/kv-cache.js';
import type { LayerState } from '../../src/model/cache/layer-state.js';
import type { PassScheduler } from '../../src/model/lanes/lane-program.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { Runtime } from '../../src/runtime/program.js';
import type { RowBuffer } from '../../src/runtime/row-buffer.js';
import { createInterpreter } from '../oracle/interpreter.js';
import { countMemory } from '../support/counting-runtime.js';
import { createEmulatedDevice, findCompiler } from '../support/emulated-device.js';
import { type Keeping, RecurrentLayer, recompute, vocabularySize } from '../support/recurrent-layer.js';
import { shallow } from '../support/tiny-checkpoints.js';
import { TinyModels } from '../support/tiny-pair.js';
import { leafPaths } from '../support/token-trees.js';

interface Ask<State> {
  readonly state: State;
  readonly tokens: Int32Array;
  readonly parents: Int32Array;
}

interface Layer<State extends { fork(): State } & LayerState> {
  open(): State;
  read(ask: Ask<State>, scheduler: PassScheduler): Promise<{ rows: RowBuffer; output: Float32Array }>;
  /** Of the whole text, each token after the one before it. [token, output] */
  recompute(tokens: readonly number[]): Promise<ArrayLike<number>> | ArrayLike<number>;
  dispose(): Promise<void>;
}

/** All layers of a decoder; its output are its logits. */
async function loadAttention(runtime: Runtime): Promise<Layer<KvCache>> {
  const models = new TinyModels({ ...shallow, vocabularySize, contextLength: 512 }, runtime);
  const { target } = await models.loadTarget();
  const read = async ({ state: cache, ...ask }: Ask<KvCache>, scheduler?: PassScheduler) => {
    const { rows, logits } = await target.forward({ ...ask, cache, want: ['logits'], scheduler });
    return { rows, output: logits! };
  };
  return {
    open: () => target.createCache(),
    read,
    async recompute(text) {
      const state = target.createCache();
      const tokens = Int32Array.from(text);
      const { rows, output } = await read({ state, tokens, parents: tokens.map((_, index) => index - 1) });
      rows.free();
      state.release();
      return output;
    },
    dispose: () => models.dispose(),
  };
}

const loadRecurrent =
  (keeping: Keeping) =>
  async (runtime: Runtime): Promise<Layer<ReturnType<RecurrentLayer['open']>>> => {
    const layer = await RecurrentLayer.load(runtime, keeping);
    return {
      open: () => layer.open(),
      read: (ask, scheduler) => layer.read(ask, scheduler),
      recompute,
      dispose: () => runtime.dispose(),
    };
  };

const maxDepth = 3;
const token = fc.nat({ max: vocabularySize - 1 });

interface Tree {
  readonly tokens: Int32Array;
  readonly parents: Int32Array;
  readonly depths: Int32Array;
}

function createTree(nodes: readonly { readonly token: number; readonly parent: number }[]): Tree {
  const parents = new Int32Array(nodes.length).fill(-1);
  const depths = new Int32Array(nodes.length);
  for (let node = 1; node < nodes.length; node++) {
    const parent = nodes[node]!.parent % node;
    parents[node] = depths[parent]! < maxDepth ? parent : 0;
    depths[node] = depths[parents[node]!]! + 1;
  }
  return { tokens: Int32Array.from(nodes, (node) => node.token), parents, depths };
}

const trees = fc
  .array(fc.record({ token, parent: fc.nat({ max: 5 }) }), { minLength: 1, maxLength: 6 })
  .map(createTree);
const chains = fc
  .array(token, { minLength: 1, maxLength: maxDepth + 1 })
  .map((tokens) => createTree(tokens.map((own, index) => ({ token: own, parent: Math.max(0, index - 1) }))));

interface Step {
  readonly tree: Tree;
  /** The accepted path ends here; undefined: the pass is dropped. */
  readonly last: number | undefined;
}

const steps = (tree: fc.Arbitrary<Tree>): fc.Arbitrary<Step> =>
  fc.record({ tree, last: fc.option(fc.nat({ max: 5 }), { freq: 4, nil: undefined }) });

interface Text<State> {
  readonly state: State;
  readonly tokens: number[];
}

function createTexts<State extends { fork(): State } & LayerState>(layer: Layer<State>) {
  /** One pass over all of them. */
  const advance = async (turns: readonly (readonly [Text<State>, Step])[]): Promise<void> => {
    const passes = new SharedPasses(() => turns.length);
    const read = await passes.forEach(
      turns,
      async ([text, step]) => ({
        ...{ text, step },
        ...(await layer.read({ state: text.state, ...step.tree }, passes)),
      }),
      (_turn, cause) => {
        throw cause;
      },
    );
    for (const { text, step, rows, output } of read) {
      const { tree, last } = step;
      const width = output.length / tree.tokens.length;
      for (const path of leafPaths(tree).map((nodes) => [0, ...nodes])) {
        const expected = await layer.recompute([...text.tokens, ...path.map((node) => tree.tokens[node]!)]);
        const from = text.tokens.length * width;
        path.forEach((node, index) => {
          for (let at = 0; at < width; at++)
            expect(output[node * width + at]).toBeCloseTo(expected[from + index * width + at]!, 3);
        });
      }
      if (last !== undefined) {
        const kept = [0, ...pathTo(tree, last % tree.tokens.length)];
        text.state.append(rows, kept);
        text.tokens.push(...kept.map((node) => tree.tokens[node]!));
      }
      rows.free();
      expect(text.state.length).toBe(text.tokens.length);
    }
  };
  return {
    advance,
    open: (): Text<State> => ({ state: layer.open(), tokens: [] }),
    fork: ({ state, tokens }: Text<State>): Text<State> => ({ state: state.fork(), tokens: [...tokens] }),
  };
}

const everything: Step = {
  tree: createTree([1, 2, 3, 4].map((own) => ({ token: own, parent: own }))),
  last: 3,
};

function describeLayer<State extends { fork(): State } & LayerState>(
  name: string,
  load: (runtime: Runtime) => Promise<Layer<State>>,
): void {
  const runtimes: readonly (readonly [string, number, () => Runtime])[] = [
    ['ONNX Runtime', 40, () => createOnnxRuntime({ threads: 1 })],
    ...(findCompiler() === undefined
      ? []
      : [['CUDA', 8, () => createCudaRuntime(createEmulatedDevice())] as const]),
  ];

  describe.each(runtimes)(`${name} on %s`, (_, numRuns, createRuntime) => {
    let layer: Layer<State>;
    beforeAll(async () => {
      layer = await load(createRuntime());
    });
    afterAll(() => layer.dispose());

    it.each([
      ['part of a chain', chains],
      ['path of a tree', trees],
    ])('goes on from any %s, and from none', async (_kind, tree) => {
      await fc.assert(
        fc.asyncProperty(fc.array(steps(tree), { minLength: 2, maxLength: 6 }), async (given) => {
          const { advance, open } = createTexts(layer);
          const text = open();
          for (const step of given) await advance([[text, step]]);
          text.state.release();
        }),
        { numRuns },
      );
    });

    it('forks, and is read together with others', async () => {
      const rounds = fc.array(
        fc.record({
          forked: fc.array(fc.nat(), { maxLength: 2 }),
          released: fc.option(fc.nat()),
          asks: fc.array(fc.tuple(fc.nat(), steps(fc.oneof(trees, chains))), { minLength: 1, maxLength: 4 }),
        }),
        { minLength: 2, maxLength: 6 },
      );
      await fc.assert(
        fc.asyncProperty(rounds, async (given) => {
          const { advance, open, fork } = createTexts(layer);
          const texts = [open(), open()];
          for (const { forked, released, asks } of given) {
            for (const place of forked) texts.push(fork(texts[place % texts.length]!));
            if (released !== null && texts.length > 1)
              texts.splice(released % texts.length, 1)[0]!.state.release();
            await advance([...new Map(asks.map(([place, step]) => [texts[place % texts.length]!, step]))]);
          }
          for (const { state } of texts) state.release();
        }),
        { numRuns },
      );
    });
  });

  it(`${name}: forks share its memory until they part`, async () => {
    const { runtime, memory } = countMemory(createInterpreter());
    const layer = await load(runtime);
    const startBytes = memory.liveBytes;
    const { advance, open, fork } = createTexts(layer);
    const text = open();
    await advance([[text, everything]]);
    const ownBytes = memory.liveBytes;
    const forks = [fork(text), fork(text)];
    expect(memory.liveBytes).toBe(ownBytes);
    await advance([[forks[0]!, everything]]);
    expect(memory.liveBytes).toBeGreaterThan(ownBytes);
    for (const { state } of [text, ...forks]) state.release();
    expect(memory.liveBytes).toBe(startBytes);
    await layer.dispose();
  });
}

describeLayer('attention', loadAttention);
describeLayer('a recurrent layer that keeps the states of all nodes', loadRecurrent('each-node'));
describeLayer('a recurrent layer that recomputes its state', loadRecurrent('recomputed'));
