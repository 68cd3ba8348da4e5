/**
 * Up to 64 rows times weight matrices of halves on tensor cores, in one order of sums: a row's result does not depend
 * on how many rows are computed with it, so a verified token is the token of plain decoding.
 * The matrix, stored as [column, inner], is the left side of 16 x 8 tiles (16 lines by 8 rows), whose order of places
 * does not matter (device-code.ts). The warps of a block share the places of its lines, an eighth each, and are joined in
 * their order. Nothing that differs between numbers of rows (tiles, loads in flight, blocks) changes this order.
 * Reading the matrix takes the time. Eight lanes read 128 bytes of a line, because half of it would cost as much, and
 * exchange what belongs to the lanes of another line. The next loads start before the arrived ones are used, the first
 * before the kernel that makes the rows has ended.
 */
import type { HalfType } from '../../../core/half-floats.js';
import { equalShapes } from '../../../graph/dimension.js';
import type { Tensor } from '../../../graph/tensor.js';
import { type FindOperand, isElementwise } from './element-code.js';
import { type KernelPlan, finishKernel } from './kernel-plan.js';
import {
  type SmallBatchWork,
  type UnitWriting,
  findUnit,
  range,
  storeElement,
} from './small-batch-kernel.js';
import { placesOfLoad, readNormWeights, rowSpacing, warps, writeNorm } from './tile-norm.js';
import { normThreads } from './wide-kernels.js';

const [tileLines, tileRows] = [16, 8];
/** Loads of a line that a warp has in one turn: two steps of four. */
const loadsOfTurn = 8;
/** Against bank conflicts, in floats. */
const lineSpacing = 1;
const processors = 132;

/** Row counts of the kernels; missing rows cost little. */
export const tileForms: readonly number[] = [8, 16, 32, 64];

/** Rows whose sums are joined at a time. */
const joinedRows = (tiles: number): number => Math.min(tiles, 2) * tileRows;
const maxSharedBytes = 48 * 1024;

/** Whether normed rows fit into shared memory beside the sums of lines and squares. */
export function hasRoomForTiles(rows: number, inner: number, matrices: number): boolean {
  const sums = matrices * joinedRows(Math.ceil(rows / tileRows)) * (tileLines + lineSpacing) + rows;
  return rows * (inner + rowSpacing) * 2 + sums * warps * 4 <= maxSharedBytes;
}

interface TileProduct extends UnitWriting {
  readonly find: FindOperand;
  readonly type: HalfType;
  /** Tiles of rows, and of lines of each matrix. */
  readonly tiles: number;
  readonly lineTiles: number;
  /** Turns in flight. */
  readonly depth: number;
  /** Loads of a line, and turns of each warp; with empty ones, a multiple of the depth. */
  readonly loads: number;
  readonly turns: number;
  readonly allTurns: number;
  readonly units: number;
}

export function planTileProduct(work: SmallBatchWork, find: FindOperand, rows: number): KernelPlan {
  const { parts, inner, left, leading } = work;
  const matrices = parts[0]!.products.length;
  const tiles = Math.ceil(rows / tileRows);
  // More lines share each read of many rows.
  const lineTiles = tiles >= 4 && matrices === 1 ? 2 : 1;
  const counts = parts.map(({ columns }) => Math.ceil(columns / (tileLines * lineTiles)));
  const units = counts.reduce((sum, each) => sum + each, 0);
  const loads = inner / placesOfLoad;
  // A processor with a single block needs more loads in flight, and has registers for them.
  const resident = tiles >= 8 || (tiles === 1 && units <= processors) ? 1 : 2;
  const turns = Math.ceil(loads / (loadsOfTurn * warps));
  const depth = Math.min(turns, tiles > 1 || matrices > 1 ? 1 : resident === 1 ? 4 : 2);
  const allTurns = Math.ceil(turns / depth) * depth;
  return finishKernel(
    parts.map(({ result }) => result),
    { kind: 'blocks', count: Math.min(units, processors * resident), block: normThreads },
    (text) => {
      const pointers = parts.map(({ products }) => products.map(({ weights }) => text.pointer(weights)));
      const sizes = { tiles, lineTiles, matrices, depth, loads, turns, allTurns, counts, units, pointers };
      const writing: TileProduct = { text, work, find, type: work.type as HalfType, ...sizes };
      declare(writing);
      if ('operation' in left) readNormWeights(writing, left);
      text.waitHere();
      text.line(`const int rows = ${text.count(leading)};`);
      const source = 'operation' in left ? writeNorm(writing, left, rows) : text.pointer(left);
      const stride = 'operation' in left ? loads + rowSpacing / placesOfLoad : loads;
      const loadRows: LoadRows = (name, place) => {
        writeRows(writing, `((const uint4*)${source})[row * ${stride} + at]`, name, place);
      };
      text.line(`uint4 given[${tiles}];`);
      loadRows('given', stepPlace(writing, '0', 0));
      text.block(`while (unit < ${units})`, () => {
        const addends = readAddends(writing);
        addUp(writing, loadRows);
        storeSums(writing, addends);
      });
    },
    normThreads,
    resident,
  );
}

const streamsOf = ({ matrices, lineTiles }: TileProduct): readonly string[] =>
  range(matrices).flatMap((m) => range(lineTiles).map((l) => `${m}_${l}`));

/** Lines that a lane loads from: its own (g) or its neighbour's, of both halves of a tile. */
const lineNames = ['evenUpper', 'oddUpper', 'evenLower', 'oddLower'] as const;

function declare(writing: TileProduct): void {
  const { text, work, units, depth, matrices, tiles } = writing;
  text.line('const int warp = threadIdx.x / 32;');
  text.line('const int lane = threadIdx.x % 32;');
  text.line('const int g = lane / 4;');
  text.line('const int t = lane % 4;');
  text.line('const bool isOdd = (g & 1) != 0;');
  const joined = `[${joinedRows(tiles)}][${tileLines + lineSpacing}]`;
  text.line(`__shared__ float sums[${matrices}][${warps}]${joined};`);
  text.line('int unit = blockIdx.x;');
  text.line('int columns = 0, line = 0;');
  if (work.parts.length > 1) text.line('int part = 0;');
  for (const stream of streamsOf(writing)) {
    for (const name of lineNames) text.line(`const uint4* ${name}${stream} = 0;`);
    for (const name of lineNames) text.line(`uint4 ${name}Ahead${stream}[${depth}];`);
  }
  text.block(`if (unit < ${units})`, () => {
    findLines(writing);
    text.unroll('u', depth, () => {
      loadAhead(writing, 'u');
    });
  });
}

/** Of `unit`. */
function findLines(writing: TileProduct): void {
  const { text, work, lineTiles, loads } = writing;
  findUnit(writing);
  text.line(`line *= ${tileLines * lineTiles};`);
  const isWhole = work.parts.every(({ columns }) => columns % (tileLines * lineTiles) === 0);
  for (const stream of streamsOf(writing))
    lineNames.forEach((name, index) => {
      const [m, l] = stream.split('_').map(Number) as [number, number];
      const own = `line + g / 2 * 2 + ${tileLines * l + 8 * Math.floor(index / 2) + (index % 2)}`;
      // Missing lines repeat the last one and are not stored.
      const found = isWhole ? `(${own})` : `min(${own}, columns - 1)`;
      text.line(`${name}${stream} = matrix${m} + ${found} * ${loads};`);
    });
}

/** The first load of turn p. */
const turnPlace = ({ turns }: TileProduct, p: string): string => `${loadsOfTurn} * (warp * ${turns} + ${p})`;
/** A lane's load of a step of turn p. */
const stepPlace = (writing: TileProduct, p: string, step: 0 | 1): string =>
  `${turnPlace(writing, p)} + ${(step * loadsOfTurn) / 2} + t`;

function loadAhead(writing: TileProduct, p: string): void {
  const { text, loads, turns, allTurns } = writing;
  text.line(`const int at = ${turnPlace(writing, p)} + lane % ${loadsOfTurn};`);
  // An empty turn would repeat the next warp's.
  const isOwn = `at < ${loads}${allTurns === turns ? '' : ` && ${p} < ${turns}`}`;
  for (const stream of streamsOf(writing))
    for (const name of lineNames)
      text.line(
        `${name}Ahead${stream}[u] = ${isOwn} ? loadOnce(${name}${stream} + at) : uint4{0u, 0u, 0u, 0u};`,
      );
}

type LoadRows = (name: string, place: string) => void;

/** Missing rows are zeros and not stored. */
function writeRows({ text, tiles, loads }: TileProduct, element: string, name: string, place: string): void {
  text.block('', () => {
    text.line(`const int at = ${place};`);
    text.unroll('n', tiles, () => {
      text.line(`const int row = ${tileRows} * n + g;`);
      text.line(`${name}[n] = row < rows && at < ${loads} ? ${element} : uint4{0u, 0u, 0u, 0u};`);
    });
  });
}

/** Every turn starts later loads: of the rows for the next step, of the matrix `depth` turns ahead. */
function addUp(writing: TileProduct, loadRows: LoadRows): void {
  const { text, work, tiles, depth, allTurns, units } = writing;
  text.line('const int ownLine = line, ownColumns = columns;');
  if (work.parts.length > 1) text.line('const int ownPart = part;');
  for (const stream of streamsOf(writing)) text.line(`float sum${stream}[${tiles}][4] = {};`);
  // Unrolling further would only take registers.
  text.line('#pragma unroll 1');
  text.block(`for (int p = 0; p < ${allTurns}; p += ${depth})`, () => {
    text.line(`int later = p + ${depth};`);
    text.block(`if (later == ${allTurns})`, () => {
      text.line('later = 0;');
      text.line('unit += gridDim.x;');
      text.block(`if (unit < ${units})`, () => {
        findLines(writing);
      });
    });
    text.line(`const bool isMore = unit < ${units};`);
    text.unroll('u', depth, () => {
      for (const stream of streamsOf(writing)) {
        for (const name of lineNames) text.line(`uint4 ${name}Words${stream} = ${name}Ahead${stream}[u];`);
        for (const half of ['Upper', 'Lower'])
          text.line(`exchange(even${half}Words${stream}, odd${half}Words${stream}, isOdd);`);
      }
      text.block('if (isMore)', () => {
        loadAhead(writing, '(later + u)');
      });
      multiplyStep(writing, 'even', () => {
        loadRows('next', stepPlace(writing, '(p + u)', 1));
      });
      multiplyStep(writing, 'odd', () => {
        loadRows('next', stepPlace(writing, `(u + 1 < ${depth} ? p + u + 1 : later)`, 0));
      });
    });
  });
}

function multiplyStep(writing: TileProduct, step: 'even' | 'odd', loadNext: () => void): void {
  const { text, type, tiles } = writing;
  const multiply = type === 'bfloat16' ? 'multiplyBfloat16' : 'multiplyFloat16';
  text.block('', () => {
    text.line(`uint4 next[${tiles}];`);
    loadNext();
    text.unroll('n', tiles, () => {
      for (const stream of streamsOf(writing))
        for (const pair of [
          ['x', 'y'],
          ['z', 'w'],
        ] as const)
          // prettier-ignore
          text.block('', () => {
            const words = pair.flatMap((field) =>
              ['Upper', 'Lower'].map((half) => `${step}${half}Words${stream}.${field}`),
            );
            text.line(`const unsigned lines[4] = {${words.join(', ')}};`);
            text.line(`${multiply}(sum${stream}[n], lines, given[n].${pair[0]}, given[n].${pair[1]});`);
          });
      text.line('given[n] = next[n];');
    });
  });
}

/**
 * What is added to the products, such as the residual stream: it arrives while they are computed. Of several tiles, a
 * thread stores more elements than it has registers for.
 */
function readAddends({ text, work, find, tiles }: TileProduct): ReadonlyMap<Tensor, string> {
  const { tensor, products } = work.parts[0]!;
  const isProduct = (node: Tensor): boolean => products.some((product) => product.tensor === node);
  const visit = (node: Tensor): readonly Tensor[] => {
    if (isProduct(node)) return [];
    if (node !== tensor && find(node) !== undefined) return [node];
    const isSame = (side: Tensor): boolean =>
      node.operation === 'reshape' || equalShapes(side.shape, node.shape);
    return isElementwise(node) ? node.inputs.filter(isSame).flatMap(visit) : [];
  };
  const found = tiles === 1 && work.parts.length === 1 ? [...new Set(visit(tensor))] : [];
  const addends = found.filter((node) => find(node)!.type === 'float32');
  if (addends.length > 0) {
    text.line(`const int spotAhead = line + threadIdx.x % ${tileLines};`);
    text.line(`const int rowAhead = threadIdx.x / ${tileLines};`);
    text.line('const bool isStored = rowAhead < rows && spotAhead < columns;');
  }
  return new Map(
    addends.map((node, index) => {
      const from = `${text.pointer(find(node)!)} + rowAhead * columns + spotAhead`;
      text.line(`const float addend${index} = isStored ? readFresh(${from}) : 0.0f;`);
      return [node, `addend${index}`];
    }),
  );
}

/** Joins the warps' sums of 16 lines and up to 16 rows at a time. */
function storeSums(writing: TileProduct, addends: ReadonlyMap<Tensor, string>): void {
  const { text, work, find, tiles, lineTiles, matrices } = writing;
  const together = Math.min(tiles, 2);
  range(lineTiles).forEach((l) => {
    text.line('#pragma unroll');
    text.block(`for (int n = 0; n < ${tiles}; n += ${together})`, () => {
      range(matrices).forEach((m) => {
        range(together).forEach((k) => {
          range(4).forEach((e) => {
            const [row, line] = [`${tileRows * k + (e % 2)} + 2 * t`, e < 2 ? 'g' : 'g + 8'];
            text.line(`sums[${m}][warp][${row}][${line}] = sum${m}_${l}[n + ${k}][${e}];`);
          });
        });
      });
      text.line('__syncthreads();');
      text.line(`const int own = threadIdx.x / ${tileLines}, spot = threadIdx.x % ${tileLines};`);
      text.line(`const int row = ${tileRows} * n + own;`);
      text.line(`const int place = ownLine + ${tileLines * l} + spot;`);
      text.block(`if (own < ${tileRows * together} && row < rows && place < ownColumns)`, () => {
        range(matrices).forEach((m) => {
          text.line(`float total${m} = 0.0f;`);
          text.line('#pragma unroll');
          text.line(`for (int w = 0; w < ${warps}; w++) total${m} += sums[${m}][w][own][spot];`);
        });
        storeElement(text, work, find, addends);
      });
      text.line('__syncthreads();');
    });
  });
}
