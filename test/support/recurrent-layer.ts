/**
 * A toy layer with a recurrent state: linear attention behind a causal convolution over three inputs. The state after a
 * node is a function of the state after its parent and the node's input:
 * mixed = silu(convolution of the last three inputs), state = decay(mixed) * parent's + key(mixed) value(mixed)^T
 * and the layer's output is query(mixed) times the state.
 */
import { createRandom } from '../../src/core/random.js';
import { addDimensions, multiplyDimensions } from '../../src/graph/dimension.js';
import { contract, matmul } from '../../src/graph/operations/contraction.js';
import { add, multiply, sigmoid, silu } from '../../src/graph/operations/elementwise.js';
import { gatherRows } from '../../src/graph/operations/indexing.js';
import { broadcast, concatenate, reshape, slice, transpose } from '../../src/graph/operations/shaping.js';
import { constant, input, type Tensor } from '../../src/graph/tensor.js';
import { rowNumbers } from '../../src/model/attention-inputs.js';
import type { LayerState } from '../../src/model/cache/layer-state.js';
import { lanes, row } from '../../src/model/lanes/lane-graph.js';
import { compileLanes, type LaneProgram, type PassScheduler } from '../../src/model/lanes/lane-program.js';
import {
  bufferOf,
  floatsOf,
  type NamedTensors,
  pickRows,
  resident,
  type Runtime,
} from '../../src/runtime/program.js';
import type { RowBuffer } from '../../src/runtime/row-buffer.js';

const width = 4;
const keySize = 3;
export const outputSize = 4;
const matrixSize = keySize * outputSize;
/** The matrix, and the last two inputs. */
const stateSize = matrixSize + 2 * width;
const stateRows = stateSize / width;
/** Nodes on the longest path of a pass. */
const maxPath = 8;

/**
 * `each-node`: a pass returns the state after each node, and one of them is kept.
 * `recomputed`: a pass returns its inputs, and the next pass first advances the state by the accepted ones.
 */
export type Keeping = 'each-node' | 'recomputed';

const random = createRandom(11, 'recurrent-layer');
const draw = (count: number, scale: number): number[] =>
  Array.from({ length: count }, () => scale * (2 * random.next() - 1));
export const vocabularySize = 16;
const embeddings = Array.from({ length: vocabularySize }, () => draw(width, 2));
/** [tap][channel] The oldest input first. */
const taps = [draw(width, 1), draw(width, 1), draw(width, 1)] as const;
const weights = {
  query: draw(width * keySize, 1),
  key: draw(width * keySize, 1),
  value: draw(width * outputSize, 1),
  decay: draw(width, 1),
};

class SharedRows {
  private readers = 1;

  constructor(readonly rows: RowBuffer) {}

  join(): this {
    this.readers += 1;
    return this;
  }

  leave(): void {
    this.readers -= 1;
    if (this.readers === 0) this.rows.free();
  }
}

export class RecurrentState implements LayerState {
  private constructor(
    private readonly runtime: Runtime,
    private readonly keeping: Keeping,
    /** The state's rows, and the inputs that it has yet to be advanced by. [row, width] */
    private kept: SharedRows,
    private filled: number,
  ) {}

  static open(runtime: Runtime, keeping: Keeping): RecurrentState {
    return new RecurrentState(runtime, keeping, new SharedRows(runtime.allocate(stateRows, width)), 0);
  }

  get length(): number {
    return this.filled;
  }

  get state(): RowBuffer {
    return this.kept.rows.rows(0, stateRows);
  }

  get pendingCount(): number {
    return this.kept.rows.rowCount - stateRows;
  }

  /** The pending inputs and more. */
  inputsWith(tokens: Int32Array): RowBuffer {
    const inputs = this.runtime.allocate(this.pendingCount + tokens.length, width);
    if (this.pendingCount > 0) inputs.write(this.kept.rows.rows(stateRows, this.pendingCount));
    inputs.write(Float32Array.from([...tokens].flatMap((token) => embeddings[token]!)), this.pendingCount);
    return inputs;
  }

  append(rows: RowBuffer, picks: ArrayLike<number>): void {
    const path = Array.from(picks);
    const last = path.at(-1);
    if (last === undefined) return;
    const ofState = Array.from({ length: stateRows }, (_, index) => index);
    const kept =
      this.keeping === 'each-node'
        ? ofState.map((index) => last * stateRows + index)
        : [...ofState, ...path.map((pick) => stateRows + this.pendingCount + pick)];
    const next = new SharedRows(pickRows(this.runtime, rows.withWidth(width), kept));
    this.kept.leave();
    this.kept = next;
    this.filled += path.length;
  }

  fork(): RecurrentState {
    return new RecurrentState(this.runtime, this.keeping, this.kept.join(), this.filled);
  }

  release(): void {
    this.kept.leave();
  }
}

export class RecurrentLayer {
  private constructor(
    private readonly runtime: Runtime,
    private readonly keeping: Keeping,
    private readonly program: LaneProgram,
  ) {}

  static async load(runtime: Runtime, keeping: Keeping): Promise<RecurrentLayer> {
    return new RecurrentLayer(runtime, keeping, await compileLanes(runtime, buildGraph(keeping), []));
  }

  open(): RecurrentState {
    return RecurrentState.open(this.runtime, this.keeping);
  }

  /** A draft tree after the state. */
  async read(
    { state, tokens, parents }: { state: RecurrentState; tokens: Int32Array; parents: Int32Array },
    scheduler: PassScheduler,
  ): Promise<{ rows: RowBuffer; output: Float32Array /* [node, outputSize] */ }> {
    const { pendingCount } = state;
    const inputs = state.inputsWith(tokens);
    // Numbers of the states before each row: the given one is 0.
    const pending = Array.from({ length: pendingCount }, (_, index) => index);
    const before = rowNumbers([...pending, ...Array.from(parents, (parent) => pendingCount + 1 + parent)]);
    const run = {
      inputs: {
        state: resident(state.state, [1, stateSize]),
        inputs: resident(inputs),
        before,
        ...(this.keeping === 'each-node' ? {} : { select: rowNumbers([pendingCount]) }),
      },
    };
    const outputs = await scheduler.run(this.program, run, ['rows', 'output']);
    inputs.free();
    return {
      rows: bufferOf(outputs, 'rows'),
      output: floatsOf(outputs, 'output').subarray(pendingCount * outputSize),
    };
  }
}

/** Each round of the graph advances all rows from the states that their parents had: after n, paths of n are right. */
function buildGraph(keeping: Keeping): NamedTensors {
  const rows = multiplyDimensions(row, lanes);
  const state = input('state', [1, lanes, stateSize]);
  const inputs = input('inputs', [row, lanes, width]);
  const before = input('before', [row, lanes], 'int32');
  const own = reshape(inputs, [rows, width]);
  const all = [multiplyDimensions(addDimensions(row, 1), lanes), stateSize];
  let states = broadcast(state, [row, lanes, stateSize]);
  let output: Tensor = own;
  for (let round = 0; round < maxPath; round++) {
    const parent = gatherRows(reshape(concatenate([state, states], 0), all), before);
    const advanced = advance(reshape(parent, [rows, stateSize]), own);
    states = reshape(advanced.state, [row, lanes, stateSize]);
    ({ output } = advanced);
  }
  const table = reshape(concatenate([state, states], 0), all);
  return {
    rows: keeping === 'each-node' ? states : concatenate([selectState(table), inputs], 0),
    output: reshape(output, [row, lanes, outputSize]),
  };
}

/** In rows as wide as the inputs. */
function selectState(table: Tensor): Tensor {
  const chosen = gatherRows(table, input('select', [1, lanes], 'int32'));
  return transpose(reshape(chosen, [lanes, stateRows, width]), [1, 0, 2]);
}

function advance(parent: Tensor /* [row, state] */, newest: Tensor /* [row, width] */) {
  const rows = parent.shape[0]!;
  const window = slice(parent, 1, matrixSize);
  const [older, old] = [slice(window, 1, 0, width), slice(window, 1, width)];
  const products = [older, old, newest].map((x, tap) => multiply(x, constant(taps[tap]!, [width])));
  const mixed = silu(products.reduce((left, right) => add(left, right)));
  const project = (name: keyof typeof weights): Tensor =>
    matmul(mixed, constant(weights[name], [width, weights[name].length / width]));
  const matrix = reshape(slice(parent, 1, 0, matrixSize), [rows, keySize, outputSize]);
  const decayed = multiply(matrix, reshape(sigmoid(project('decay')), [rows, 1, 1]));
  const product = contract(project('key'), project('value'), 'row key, row value -> row key value');
  const next = add(decayed, product);
  return {
    state: concatenate([reshape(next, [rows, matrixSize]), old, newest], 1),
    output: contract(project('query'), next, 'row key, row key value -> row value'),
  };
}

/** The layer by its definition, in float64. [token * outputSize] */
export function recompute(tokens: ArrayLike<number>): number[] {
  const matrix = new Float64Array(matrixSize);
  const text = Array.from(tokens, (token) => embeddings[token]!);
  return text.flatMap((_, position) => {
    const mixed = taps[0].map((_tap, channel) => {
      const sum = taps.reduce(
        (total, tap, at) => total + tap[channel]! * (text[position + at - 2]?.[channel] ?? 0),
        0,
      );
      return sum / (1 + Math.exp(-sum));
    });
    const project = (values: readonly number[]): number[] => {
      const size = values.length / width;
      return Array.from({ length: size }, (_, column) =>
        mixed.reduce((total, value, index) => total + value * values[index * size + column]!, 0),
      );
    };
    const [query, key, value] = [project(weights.query), project(weights.key), project(weights.value)];
    const decay = 1 / (1 + Math.exp(-project(weights.decay)[0]!));
    matrix.forEach((old, at) => {
      matrix[at] = decay * old + key[Math.floor(at / outputSize)]! * value[at % outputSize]!;
    });
    return value.map((_value, column) =>
      query.reduce((total, weight, index) => total + weight * matrix[index * outputSize + column]!, 0),
    );
  });
}
