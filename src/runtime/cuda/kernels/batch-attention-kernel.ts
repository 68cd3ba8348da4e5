/**
 * Attention of many short sequences with a common past (candidates after a prompt) on tensor cores. A block has one
 * head of a sequence, up to 64 rows and 64 columns at a time: its threads load keys and values to shared memory as
 * halves, rotating them if needed, and each of its four warps has 16 rows.
 * Operands are rounded like those of products; sums and softmax are float32.
 */
import type { HalfType } from '../../../core/half-floats.js';
import { countElements, equalShapes } from '../../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import type { FindOperand } from './element-code.js';
import { type KernelPlan, writeKernel } from './kernel-plan.js';
import { type KernelOperand, narrow } from './kernel-text.js';
import { rootOf } from '../programs/step.js';
import { type TileWriting, declareSizes, declareTile, tileRows, writeSoftmax } from './tile-softmax.js';
import { loadEight, pairOf, storeFour } from './wide-kernels.js';

const warps = 4;
const threads = 32 * warps;
const blockRows = warps * tileRows;
/** Columns in shared memory at a time. */
const chunk = 64;
/** Leaves enough registers per thread. */
const blocksOfProcessor = 3;
/** Padding against bank conflicts. */
const spacing = 8;

interface BatchWriting extends TileWriting {
  readonly find: FindOperand;
  readonly type: HalfType;
}

export function planBatchAttention(
  tensor: TensorOf<'attention'>,
  result: KernelOperand,
  find: FindOperand,
  type: HalfType,
): KernelPlan {
  const [batch, position, heads, size] = tensor.shape;
  const parts = { length: position!, each: blockRows, most: Infinity };
  const need = { kind: 'blocks', count: countElements([batch!, heads!]), block: threads, parts } as const;
  return writeKernel(
    result,
    find,
    need,
    ({ text, code }) => {
      const place = (side: Tensor): KernelOperand => find(rootOf(side))!;
      const sizes = { size: size as number, chunk };
      const writing: BatchWriting = { text, code, tensor, result, place, find, type, ...sizes };
      const width = sizes.size + spacing;
      text.line(`__shared__ uint4 keyRoom[${(chunk * width) / 8}];`);
      text.line(`__shared__ uint4 valueRoom[${(chunk * width) / 8}];`);
      declareSizes(writing);
      text.line(`const int groups = (rows + ${blockRows - 1}) / ${blockRows};`);
      const items = `${text.dimension(batch!)} * heads * groups`;
      text.block(`for (int item = blockIdx.x; item < ${items}; item += gridDim.x)`, () => {
        text.line('const int head = item % heads;');
        text.line('const int sequence = item / (heads * groups);');
        text.line(`const int firstRow = item / heads % groups * ${blockRows};`);
        text.line(`const int tile = firstRow / ${tileRows} + warp;`);
        declareTile(writing);
        writeQueries(writing);
        text.line('int before = 0;');
        tensor.attributes.segments.forEach((_, index) => {
          writeSegment(writing, index);
        });
        storeRows(writing);
      });
    },
    threads,
    blocksOfProcessor,
  );
}

/** Queries go to registers through the keys' shared memory. [16 places][4 words] */
function writeQueries(writing: BatchWriting): void {
  const { text, tensor, size } = writing;
  const words = (size + spacing) / 2;
  text.line(
    `const int taken = min(${blockRows}, (rows - firstRow + ${tileRows - 1}) / ${tileRows} * ${tileRows});`,
  );
  bringRows(writing, {
    tensor: tensor.inputs[0]!,
    room: 'keyRoom',
    count: 'taken',
    scale: tensor.attributes.scale,
    row: (own) => `min(firstRow + ${own}, rows - 1)`,
    heads: 'heads',
    head: 'head',
    start: 'sequence * rows + ',
  });
  text.line('__syncthreads();');
  text.line(`unsigned query[${size / 16}][4];`);
  text.line(
    `const unsigned* const queries = (const unsigned*)keyRoom + (${tileRows} * warp + g) * ${words} + t;`,
  );
  text.unroll('i', size / 16, () => {
    [0, 8 * words, 4, 8 * words + 4].forEach((offset, word) => {
      text.line(`query[i][${word}] = queries[8 * i + ${offset}];`);
    });
  });
}

function writeSegment(writing: BatchWriting, index: number): void {
  const { text, tensor, size, type } = writing;
  const { segments, keyValueHeads } = tensor.attributes;
  const [keys, values] = [tensor.inputs[2 + 2 * index]!, tensor.inputs[3 + 2 * index]!];
  const kind = segments[index]!;
  const [heads, head] = kind === 'common' ? [String(keyValueHeads), 'commonHead'] : ['keyHeads', 'keyHead'];
  const words = (size + spacing) / 2;
  const multiply = type === 'bfloat16' ? 'multiplyBfloat16' : 'multiplyFloat16';
  text.block('', () => {
    text.line(`const int length = ${text.dimension(keys.shape.at(-3)!)};`);
    text.block(`for (int first = 0; first < length; first += ${chunk})`, () => {
      text.line(`const int here = min(${chunk}, length - first);`);
      // Groups of 16 columns; missing ones repeat the last and have weight 0.
      text.line('const int whole = (here + 15) / 16 * 16;');
      text.line('__syncthreads();');
      for (const [side, room] of [
        [keys, 'keyRoom'],
        [values, 'valueRoom'],
      ] as const)
        bringRows(writing, {
          tensor: side,
          room,
          count: 'whole',
          row: (own) => `min(first + ${own}, length - 1)`,
          heads,
          head,
          start: kind === 'own' ? 'sequence * length + ' : '',
        });
      text.line('__syncthreads();');
      text.block('if (tile < tiles)', () => {
        text.line(`float score[${chunk / 8}][4] = {};`);
        text.line(`const unsigned* const key = (const unsigned*)keyRoom + g * ${words} + t;`);
        text.unroll('i', size / 16, () => {
          text.unroll('n', chunk / 8, () => {
            const [even, odd] = [0, 4].map((offset) => `key[8 * n * ${words} + 8 * i + ${offset}]`);
            text.line(`if (8 * n < here) ${multiply}(score[n], query[i], ${even!}, ${odd!});`);
          });
        });
        writeSoftmax(writing, (power) => power);
        writeMixing(writing, multiply);
      });
    });
    text.line('before += length;');
  });
}

/** A word holds two places of a value; two columns' words are recombined per place. */
function writeMixing({ text, size, type }: BatchWriting, multiply: string): void {
  const words = (size + spacing) / 2;
  text.line(`const unsigned* const value = (const unsigned*)valueRoom + 2 * t * ${words} + g;`);
  text.line('#pragma unroll');
  const eachPair = (write: () => void): void => {
    text.block(`for (int n = 0; n < ${chunk / 8}; n += 2)`, () => text.block('if (8 * n < here)', write));
  };
  eachPair(() => {
    const pair = (group: string, e: number): string =>
      pairOf(type, `score[${group}][${e}]`, `score[${group}][${e + 1}]`);
    const weights = [pair('n', 0), pair('n', 2), pair('n + 1', 0), pair('n + 1', 2)];
    text.line(`const unsigned weights[4] = {${weights.join(', ')}};`);
    text.unroll('j', size / 16, () => {
      [0, 1, 8, 9].forEach((column, index) => {
        text.line(`const unsigned word${index} = value[(8 * n + ${column}) * ${words} + 8 * j];`);
      });
      for (const [e, join] of ['lowHalves', 'highHalves'].entries())
        text.line(`${multiply}(mixed[2 * j + ${e}], weights, ${join}(word0, word1), ${join}(word2, word3));`);
    });
  });
}

/** A lane has four adjacent places of every 16. */
function storeRows({ text, result, size }: BatchWriting): void {
  text.unroll('r', 2, () => {
    for (const step of [1, 2]) text.line(`powers[r] += __shfl_xor_sync(0xffffffffu, powers[r], ${step});`);
  });
  for (const r of [0, 1])
    text.block(`if (row${r} < rows)`, () => {
      text.line(`const float share = 1.0f / powers[${r}];`);
      const to = `((long long)(sequence * rows + row${r}) * heads + head) * ${size} + 4 * t`;
      text.line(`const long long to = ${to};`);
      text.unroll('j', size / 16, () => {
        const values = [0, 1].flatMap((c) => [0, 1].map((e) => `mixed[2 * j + ${e}][${2 * r + c}] * share`));
        storeFour(text, result, 'to + 16 * j', values);
      });
    });
  // The next item overwrites the keys.
  text.line('__syncthreads();');
}

interface BroughtRows {
  readonly tensor: Tensor; // [..., length, heads, size]
  readonly room: string;
  readonly count: number | string;
  readonly row: (own: string) => string;
  readonly heads: string;
  readonly head: string;
  readonly start: string;
  readonly scale?: number | undefined;
}

function bringRows(writing: BatchWriting, rows: BroughtRows): void {
  const { text, code, size, type, find } = writing;
  const { tensor, room, count, heads, head, start, scale = 1 } = rows;
  const [eights, width] = [size / 8, (size + spacing) / 8];
  const scaled = (value: string): string => (scale === 1 ? value : `${value} * ${Math.fround(scale)}f`);
  const store = (own: string, eight: string, values: readonly string[]): void => {
    const pairs = [0, 2, 4, 6].map((at) => pairOf(type, scaled(values[at]!), scaled(values[at + 1]!)));
    text.line(`${room}[${own} * ${width} + ${eight}] = uint4{${pairs.join(', ')}};`);
  };
  const operand = find(rootOf(tensor));
  const turned = operand === undefined ? findRotation(tensor, find) : undefined;
  const each = turned === undefined ? (operand === undefined ? size : eights) : eights / 2;
  text.line('#pragma unroll 4');
  text.block(`for (int i = threadIdx.x; i < ${count} * ${each}; i += ${threads})`, () => {
    text.line(`const int own = i / ${each};`);
    text.line(`const int part = i % ${each};`);
    text.line(`const int row = ${rows.row('own')};`);
    const at = `((long long)(${start}row) * ${heads} + ${head}) * ${eights} + part`;
    if (turned !== undefined) {
      const [a, b] = [at, `${at} + ${eights / 2}`].map((from) => loadEight(text, turned.x, `(${from})`));
      const [c, s] = [turned.cosine, turned.sine].map((angles) =>
        loadEight(text, angles, `(row * ${eights / 2} + part)`),
      );
      const both = (e: number): readonly [string, string] => [
        `(${a![e]!} * ${c![e]!} - ${b![e]!} * ${s![e]!})`,
        `(${b![e]!} * ${c![e]!} + ${a![e]!} * ${s![e]!})`,
      ];
      const values = Array.from({ length: 8 }, (_, e) => both(e));
      store('own', 'part', values.map(([first]) => first)); // prettier-ignore
      store('own', `part + ${eights / 2}`, values.map(([, second]) => second)); // prettier-ignore
    } else if (operand !== undefined) store('own', 'part', loadEight(text, operand, `(${at})`));
    else {
      const sequence = tensor.shape.length === 4 ? ['sequence'] : [];
      const value = code.element(tensor, { axes: [...sequence, 'row', head, 'part'] });
      const spot = `own * ${size + spacing} + part`;
      text.line(`((unsigned short*)${room})[${spot}] = ${narrow(type, scaled(value))};`);
    }
  });
}

/** Whether it only rotates another tensor, so that reading can rotate. */
export function isPlainRotation(tensor: Tensor): boolean {
  const root = rootOf(tensor);
  const size = tensor.shape.at(-1);
  if (root.operation !== 'rotate' || !equalShapes(root.shape, tensor.shape)) return false;
  return typeof size === 'number' && size % 16 === 0 && root.inputs[1]!.shape[1] === size / 2;
}

function findRotation(tensor: Tensor, find: FindOperand) {
  if (!isPlainRotation(tensor)) return undefined;
  const [x, cosine, sine] = rootOf(tensor).inputs.map((side) => find(rootOf(side)));
  return x === undefined || cosine === undefined || sine === undefined ? undefined : { x, cosine, sine };
}
