/**
 * Drawing tokens from rows, one block per row. Kept values lie above a cut (a value, and an index among equals),
 * which is found bit by bit by counting or summing, without sorting. Deciding sums are double: independent of the
 * number of threads.
 */
import type { TensorOf } from '../../../graph/tensor.js';
import type { KernelText } from './kernel-text.js';
import { type RowWriting, overRow, writeMaximum } from './kernel-plan.js';

function writeCount({ text, element }: RowWriting, name: string, condition: string): void {
  text.line(`int ${name};`);
  text.block('', () => {
    text.line('int own = 0;');
    overRow(text, () => {
      text.line(`const unsigned order = orderOf(${element()});`);
      text.line(`own += ${condition} ? 1 : 0;`);
    });
    text.line(`${name} = blockCount(own);`);
  });
}

function writeMass({ text, element }: RowWriting, name: string, condition: string): void {
  text.line(`double ${name};`);
  text.block('', () => {
    text.line('double own = 0.0;');
    overRow(text, () => {
      const value = element();
      text.line(`const unsigned order = orderOf(${value});`);
      text.line(`if (${condition}) own += (double)expf(${value} - largest);`);
    });
    text.line(`${name} = blockSumOfDoubles(own);`);
  });
}

const isKept = '(order > cut || (order == cut && j < bound))';

/** Moves `bound` so that the `stay` lowest indices at the cut are kept. */
function writeTies(writing: RowWriting): void {
  const { text } = writing;
  writeCount(writing, 'equal', 'order == cut && j < bound');
  text.block('if (stay < equal)', () => {
    text.line('int low = 0, high = bound;');
    text.block('while (high - low > 1)', () => {
      text.line('const int middle = low + (high - low) / 2;');
      writeCount(writing, 'below', 'order == cut && j < middle');
      text.line('if (below >= stay) high = middle; else low = middle;');
    });
    text.line('bound = high;');
  });
}

const overBits = 'for (int bit = 31; bit >= 0; bit--)';

export function writeKeepLikeliest(
  { inputs: [, count, mass] }: TensorOf<'keepLikeliest'>,
  writing: RowWriting,
): void {
  const { text, code, result, element } = writing;
  const overResult = (value: () => string): void => {
    overRow(text, () => text.store(result, 'row * width + j', value()));
  };
  text.line(`const int count = max(1, min(width, ${code.element(count!, { flat: 'row' })}));`);
  text.line(`const float mass = ${code.element(mass!, { flat: 'row' })};`);
  text.line('unsigned cut = 0u;');
  text.line('int bound = width;');
  text.block('if (count < width)', () => {
    text.block(overBits, () => {
      text.line('const unsigned candidate = cut | (1u << bit);');
      writeCount(writing, 'above', 'order >= candidate');
      text.line('if (above >= count) cut = candidate;');
      text.line('if (above == count) break;');
    });
    writeCount(writing, 'above', 'order > cut');
    text.line('const int stay = count - above;');
    writeTies(writing);
  });
  text.block('if (mass < 1.0f)', () => {
    writeMaximum(writing);
    writeMass(writing, 'total', isKept);
    text.line('const double wanted = (double)mass * total;');
    text.line('unsigned best = 0u;');
    text.block(overBits, () => {
      text.line('const unsigned candidate = best | (1u << bit);');
      text.line('if (candidate > orderOf(largest)) continue;');
      text.line('if (candidate <= cut) { best = candidate; continue; }');
      writeMass(writing, 'reached', `order >= candidate && ${isKept}`);
      text.line('if (reached >= wanted) best = candidate;');
    });
    writeMass(writing, 'above', 'order > best');
    text.line('if (best > cut) { cut = best; bound = width; }');
    text.line('const double each = (double)expf(valueOf(cut) - largest);');
    text.line('const double missing = each > 0.0 ? (wanted - above) / each : 0.0;');
    text.line('int stay = missing < 1.0 ? 1 : missing < 2.0e9 ? (int)missing : 2000000000;');
    text.line('if (above + stay * each < wanted) stay += 1;');
    writeTies(writing);
  });
  overResult(() => {
    const value = element();
    text.line(`const unsigned order = orderOf(${value});`);
    return `${isKept} ? ${value} : -INFINITY`;
  });
}

/** Each warp sums a part of the row; the one whose part contains the drawn index searches it. */
export function writeDraw({ inputs: [, uniform] }: TensorOf<'draw'>, writing: RowWriting): void {
  const { text, code, result, element } = writing;
  text.line('__shared__ double parts[32];');
  text.line('const int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;');
  text.line('const int length = (width + warps - 1) / warps;');
  text.line('const int first = min(width, warp * length), last = min(width, first + length);');
  text.line('double part = 0.0;');
  text.block('for (int j = first + lane; j < last; j += 32)', () => {
    text.line(`part += (double)${element()};`);
  });
  text.line('for (int step = 16; step > 0; step >>= 1) part += __shfl_xor_sync(0xffffffffu, part, step);');
  text.line('if (lane == 0) parts[warp] = part;');
  text.line('__syncthreads();');
  text.line('double total = 0.0;');
  text.line('for (int other = 0; other < warps; other++) total += parts[other];');
  const number = code.element(uniform!, { flat: 'row' });
  text.line(`const double wanted = (double)fminf(${number}, 0.99999994f) * total;`);
  text.line('double before = 0.0;');
  text.line('int owner = 0;');
  text.line('while (owner < warps - 1 && before + parts[owner] <= wanted) before += parts[owner++];');
  text.block('if (warp == owner)', () => {
    writeSearch(text, element);
    text.block('if (lane == 0)', () => text.store(result, 'row', 'found < 0 ? possible : found'));
  });
  text.line('__syncthreads();');
}

/** `found`, or the last `possible` index if rounding leaves none. */
function writeSearch(text: KernelText, element: () => string): void {
  text.line('int found = -1, possible = first;');
  text.block('for (int start = first; start < last && found < 0; start += 32)', () => {
    text.line('const int j = min(start + lane, last - 1);');
    text.line(`const double own = start + lane < last ? (double)${element()} : 0.0;`);
    text.line('double running = own;');
    text.block('for (int step = 1; step < 32; step <<= 1)', () => {
      text.line('const double other = __shfl_up_sync(0xffffffffu, running, step);');
      text.line('if (lane >= step) running += other;');
    });
    text.line('int place = own > 0.0 && before + running > wanted ? j : 0x7fffffff;');
    text.line('int latest = own > 0.0 ? j : -1;');
    text.block('for (int step = 16; step > 0; step >>= 1)', () => {
      text.line('place = min(place, __shfl_xor_sync(0xffffffffu, place, step));');
      text.line('latest = max(latest, __shfl_xor_sync(0xffffffffu, latest, step));');
    });
    text.line('if (place != 0x7fffffff) found = place;');
    text.line('possible = max(possible, latest);');
    text.line('before += __shfl_sync(0xffffffffu, running, 31);');
  });
}
