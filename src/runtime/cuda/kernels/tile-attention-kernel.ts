/**
 * Attention of many rows on tensor cores: a warp has 16 rows of a head and an online softmax over the columns
 * (FlashAttention-2, Dao, 2307.08691). Each lane reads four adjacent places, because the order of places does not
 * matter. With few rows, the warps of a block share the columns and join their parts at the end.
 * Operands are rounded to TF32; everything else is float32.
 */
import { isHalf } from '../../../core/half-floats.js';
import { isKept } from '../../../graph/operations/attention-view.js';
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import type { ElementType } from '../driver/device.js';
import { countElements } from '../../../graph/dimension.js';
import type { FindOperand } from './element-code.js';
import { type KernelPlan, writeKernel } from './kernel-plan.js';
import { fourOf, type KernelOperand, type KernelText, round, widen } from './kernel-text.js';
import { rootOf } from '../programs/step.js';
import { type TileWriting, declareSizes, declareTile, tileRows, writeSoftmax } from './tile-softmax.js';
import { storeEight } from './wide-kernels.js';

/** Warps per block, and columns per step. */
const [warps, chunk] = [8, 32];
/** Limited by shared memory for queries. */
const maxTiles = 4;
/** Padding against bank conflicts. */
const spacing = 4;
/** With more tiles, the device is busy without sharing columns among warps. */
const busyTiles = 512;
/** Register limit. */
const largestSize = 128;

export function isTileable({ attributes: { segments }, shape }: TensorOf<'attention'>): boolean {
  const size = shape.at(-1)!;
  return (
    segments.every((kind) => kind !== 'diagonal') &&
    typeof size === 'number' &&
    size % 32 === 0 &&
    size <= largestSize
  );
}

export function planTileAttention(
  tensor: TensorOf<'attention'>,
  result: KernelOperand,
  find: FindOperand,
): KernelPlan {
  const [batch, position, heads, size] = tensor.shape;
  const parts = { length: position!, each: tileRows, most: Infinity };
  const count = countElements([batch!, heads!]);
  const need = { kind: 'blocks', count, block: 32 * warps, parts } as const;
  return writeKernel(
    result,
    find,
    need,
    ({ text, code }) => {
      const place = (side: Tensor): KernelOperand => find(rootOf(side))!;
      const writing: TileWriting = { text, code, tensor, result, place, size: size as number, chunk };
      declare(writing);
      text.block('for (int item = blockIdx.x; item < items; item += gridDim.x)', () => {
        declareItem(writing);
        writeQueries(writing);
        text.block('if (isBusy)', () => {
          readQueries(writing);
          text.line('int before = 0;');
          text.line('int chunksBefore = 0;');
          tensor.attributes.segments.forEach((_, index) => {
            writeSegment(writing, index);
          });
        });
        text.line('__syncthreads();');
        joinParts(writing);
        storeRows(writing);
      });
    },
    32 * warps,
  );
}

function declare(writing: TileWriting): void {
  const { text, tensor, size } = writing;
  const partSize = (size / 2 + 4) * 32;
  const room = Math.max(maxTiles * tileRows * (size + spacing), (warps / 2) * partSize);
  text.line(`__shared__ float4 room[${room / 4}];`);
  text.line(`float (*const joined)[${partSize}] = (float (*)[${partSize}])room;`);
  declareSizes(writing);
  const all = `${text.dimension(tensor.shape[0]!)} * heads`;
  text.line(`const int tilesOfBlock = ${all} * tiles < ${busyTiles} ? 1 : min(tiles, ${maxTiles});`);
  text.line(`int parts = ${warps};`);
  text.line(`while (parts * tilesOfBlock > ${warps}) parts /= 2;`);
  text.line('const int groups = (tiles + tilesOfBlock - 1) / tilesOfBlock;');
  text.line(`const int items = ${all} * groups;`);
}

function declareItem(writing: TileWriting): void {
  const { text } = writing;
  text.line('const int head = item % heads;');
  text.line('const int sequence = item / (heads * groups);');
  text.line('const int firstTile = item / heads % groups * tilesOfBlock;');
  text.line('const int tile = firstTile + warp % tilesOfBlock;');
  text.line('const int part = warp / tilesOfBlock;');
  text.line('const bool isBusy = part < parts && tile < tiles;');
  declareTile(writing);
}

function writeQueries({ text, code, tensor, size }: TileWriting): void {
  const all = `${tileRows * size} * tilesOfBlock`;
  text.block(`for (int i = threadIdx.x; i < ${all}; i += ${32 * warps})`, () => {
    text.line(`const int place = i % ${size};`);
    text.line(`const int own = i / ${size};`);
    // Missing rows repeat the last one and are not stored.
    text.line(`const int row = min(${tileRows} * firstTile + own, rows - 1);`);
    const value = code.element(tensor.inputs[0]!, { axes: ['sequence', 'row', 'head', 'place'] });
    const scaled = `toTensorCore(${value} * ${Math.fround(tensor.attributes.scale)}f)`;
    text.line(`((float*)room)[own * ${size + spacing} + place] = ${scaled};`);
  });
  text.line('__syncthreads();');
}

/** [16 places, four per lane][row] */
function readQueries({ text, size }: TileWriting): void {
  text.line(`float4 query[${size / 16}][2];`);
  text.line(
    `const float4* const queries = room + (warp % tilesOfBlock) * ${(tileRows * (size + spacing)) / 4};`,
  );
  text.unroll('i', size / 16, () => {
    for (const r of [0, 1])
      text.line(`query[i][${r}] = queries[(g + ${8 * r}) * ${(size + spacing) / 4} + 4 * i + t];`);
  });
}

function writeSegment(writing: TileWriting, index: number): void {
  const { text, tensor, size, place } = writing;
  const { segments, keyValueHeads, cacheType = 'float32' } = tensor.attributes;
  const [keys, values] = [tensor.inputs[2 + 2 * index]!, tensor.inputs[3 + 2 * index]!];
  const kind = segments[index]!;
  const kept = isKept(kind) ? 'float32' : cacheType;
  const [stride, own] = kind === 'common' ? [keyValueHeads, 'commonHead'] : ['keyHeads', 'keyHead'];
  const start = kind === 'own' ? `sequence * length + ` : '';
  const fours = (column: string, offset: string): string =>
    `((long long)(${start}${column}) * ${stride} + ${own}) * ${size / 4} + ${offset}`;
  const eachGroup = (write: () => void): void => {
    text.unroll('n', chunk / 8, write);
  };
  text.block('', () => {
    text.line(`const int length = ${text.dimension(keys.shape.at(-3)!)};`);
    text.line('const int skipped = (part + parts - chunksBefore % parts) % parts;');
    text.block(`for (int first = ${chunk} * skipped; first < length; first += ${chunk} * parts)`, () => {
      text.line(`float score[${chunk / 8}][4] = {};`);
      text.unroll('i', size / 16, () => {
        eachGroup(() => {
          text.line('const int column = min(first + 8 * n + g, length - 1);');
          const key = loadFour(text, place(keys), fours('column', '4 * i + t'), kept);
          for (const [step, fields] of [
            ['x', 'y'],
            ['z', 'w'],
          ].entries()) {
            const query = fields.flatMap((field) => [0, 1].map((r) => `query[i][${r}].${field}`));
            text.line(
              `multiplyTile(score[n], ${query.join(', ')}, ${key[2 * step]!}, ${key[2 * step + 1]!});`,
            );
          }
        });
      });
      writeSoftmax(writing, (power) => `toTensorCore(${power})`);
      eachGroup(() => {
        text.line('const int column = first + 8 * n + 2 * t;');
        text.unroll('j', size / 32, () => {
          const [even, odd] = ['column', 'column + 1'].map((each) =>
            loadFour(text, place(values), fours(`min(${each}, length - 1)`, '8 * j + g'), kept),
          );
          for (let e = 0; e < 4; e++)
            text.line(
              `multiplyTile(mixed[4 * j + ${e}], score[n][0], score[n][2], score[n][1], score[n][3], ${even![e]!}, ${odd![e]!});`,
            );
        });
      });
    });
    text.line(`chunksBefore += (length + ${chunk - 1}) / ${chunk};`);
    text.line('before += length;');
  });
}

/** Pairwise reduction over the warps that share rows. */
function joinParts({ text, size }: TileWriting): void {
  const slot = 'joined[(part - half) * tilesOfBlock + warp % tilesOfBlock]';
  const other = 'joined[part * tilesOfBlock + warp % tilesOfBlock]';
  text.block('for (int half = parts / 2; half > 0; half /= 2)', () => {
    text.block('if (isBusy && part >= half && part < 2 * half)', () => {
      text.line('#pragma unroll');
      text.line(`for (int i = 0; i < ${size / 2}; i++) ${slot}[32 * i + lane] = mixed[i / 4][i % 4];`);
      text.block('for (int r = 0; r < 2; r++)', () => {
        text.line(`${slot}[32 * (${size / 2} + r) + lane] = top[r];`);
        text.line(`${slot}[32 * (${size / 2 + 2} + r) + lane] = powers[r];`);
      });
    });
    text.line('__syncthreads();');
    text.block('if (isBusy && part < half)', () => {
      text.line('float own[2], others[2];');
      text.unroll('r', 2, () => {
        text.line(`const float theirs = ${other}[32 * (${size / 2} + r) + lane];`);
        text.line('const float higher = fmaxf(top[r], theirs);');
        text.line('const float zero = higher == -INFINITY ? 0.0f : higher;');
        text.line('own[r] = expf(top[r] - zero);');
        text.line('others[r] = expf(theirs - zero);');
        text.line(
          `powers[r] = powers[r] * own[r] + ${other}[32 * (${size / 2 + 2} + r) + lane] * others[r];`,
        );
        text.line('top[r] = higher;');
      });
      text.unroll('i', size / 2, () => {
        text.line(`const float theirs = ${other}[32 * i + lane] * others[i % 4 / 2];`);
        text.line('mixed[i / 4][i % 4] = mixed[i / 4][i % 4] * own[i % 4 / 2] + theirs;');
      });
    });
    text.line('__syncthreads();');
  });
}

/** A lane has eight adjacent places of every 32. */
function storeRows({ text, result, size }: TileWriting): void {
  text.block('if (isBusy && part == 0)', () => {
    text.unroll('r', 2, () => {
      for (const step of [1, 2]) text.line(`powers[r] += __shfl_xor_sync(0xffffffffu, powers[r], ${step});`);
      text.line('const int row = r == 0 ? row0 : row1;');
      text.line('if (row >= rows) continue;');
      text.line('const float share = 1.0f / powers[r];');
      text.line(
        `const long long to = ((long long)(sequence * rows + row) * heads + head) * ${size} + 8 * t;`,
      );
      text.unroll('j', size / 32, () => {
        const values = Array.from(
          { length: 8 },
          (_, e) => `mixed[4 * j + ${e % 4}][2 * r + ${Math.floor(e / 4)}] * share`,
        );
        storeEight(text, result, 'to + 32 * j', values);
      });
    });
  });
}

/** Four adjacent values, rounded as they are kept, or to TF32; halves are exact already. */
function loadFour(
  text: KernelText,
  operand: KernelOperand,
  at: string,
  kept: ElementType,
): readonly string[] {
  const name = text.name('four');
  const { type } = operand;
  const read = widen(type, `((const ${fourOf(type)}*)${text.pointer(operand)})[${at}]`);
  text.line(`const float4 ${name} = ${round(kept, read)};`);
  const isExact = isHalf(type) || isHalf(kept);
  return ['x', 'y', 'z', 'w'].map((field) =>
    isExact ? `${name}.${field}` : `toTensorCore(${name}.${field})`,
  );
}
