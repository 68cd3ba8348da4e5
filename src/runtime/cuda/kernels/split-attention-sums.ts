/**
 * Scores and mixtures of split attention. Groups of threads share a column for the scores, and each thread has four
 * places for the mixture. Columns that were read ahead come first, then the late ones, so that a row sums in their order.
 */
import { type KernelText, widen } from './kernel-text.js';
import {
  chunk,
  fields,
  lateColumns,
  overMixture,
  overShares,
  overSpots,
  readColumn,
  rolled,
  type SplitWriting,
  unrolled,
} from './split-attention-columns.js';

function addProducts(text: KernelText, value: string, spot: string): void {
  for (const field of fields)
    text.line(`score[r] = fmaf(query[r][${spot}].${field}, ${value}.${field}, score[r]);`);
}

/** Sums the products of a column's threads, which stay together, and adds the mask. */
function storeScores({ text, rows, perColumn }: SplitWriting, isOwn: string): void {
  text.unroll('r', rows, () => {
    text.line(
      `for (int step = ${perColumn / 2}; step > 0; step >>= 1) score[r] += __shfl_xor_sync(0xffffffffu, score[r], step);`,
    );
    text.block(`if (thread % ${perColumn} == 0 && ${isOwn})`, () => {
      text.line('if (columnOf[slot][r][u] >= 0) scores[slot][r][u] += score[r];');
    });
  });
}

/** First of what was read ahead, then of the rest: few columns, whose code is long. */
export function writeScores(writing: SplitWriting): void {
  const { text, rows, pastType } = writing;
  const late = lateColumns(writing);
  const addRows = (value: string): void => {
    text.unroll('r', rows, () => {
      addProducts(text, value, 'spot');
    });
  };
  overShares(writing, unrolled, () => {
    text.line(`float score[${rows}] = {};`);
    overSpots(writing, unrolled, () => {
      text.line(`const float4 value = ${widen(pastType, 'keys[n][i]')};`);
      addRows('value');
    });
    storeScores(writing, `column >= 0 && column < ${late}`);
  });
  text.block('if (hasLate[slot] != 0)', () => {
    overShares(writing, rolled, () => {
      text.line(`float score[${rows}] = {};`);
      overSpots(writing, rolled, () => {
        text.line('float4 value = {};');
        readColumn(writing, 'late', 0, 'value', 'spot');
        addRows('value');
      });
      storeScores(writing, `column >= ${late}`);
    });
  });
}

/** Where rows see different columns, each reads its own. */
export function writeForkedScores(writing: SplitWriting): void {
  const { text, rows, size, threads, perColumn } = writing;
  text.block(`for (int u = thread / ${perColumn}; u < ${chunk}; u += ${threads / perColumn})`, () => {
    text.line(`float score[${rows}] = {};`);
    text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
      text.line('const int column = columnOf[slot][r][u];');
      text.block(`for (int i = thread % ${perColumn}; i < ${size / 4}; i += ${perColumn})`, () => {
        text.line('float4 value;');
        readColumn(writing, 'any', 0, 'value', 'i');
        addProducts(text, 'value', 'i');
      });
    });
    storeScores(writing, 'true');
  });
}

function addMixture(text: KernelText, value: string): void {
  for (const field of fields)
    text.line(`sum[r].${field} = fmaf(scores[slot][r][u], ${value}.${field}, sum[r].${field});`);
}

export function writeMixture(writing: SplitWriting): void {
  const { text, rows, pastType } = writing;
  const late = lateColumns(writing);
  const addRows = (value: string): void => {
    text.unroll('r', rows, () => {
      addMixture(text, value);
    });
  };
  text.line(`float4 sum[${rows}] = {};`);
  overMixture(writing, unrolled, () => {
    text.block(`if (column >= 0 && column < ${late})`, () => {
      text.line(`const float4 value = ${widen(pastType, 'values[n]')};`);
      addRows('value');
    });
  });
  text.block('if (hasLate[slot] != 0)', () => {
    overMixture(writing, rolled, () => {
      text.line(`if (column < ${late}) continue;`);
      text.line('float4 value;');
      readColumn(writing, 'late', 1, 'value', 'at');
      addRows('value');
    });
  });
  storeMixture(writing);
}

export function writeForkedMixture(writing: SplitWriting): void {
  const { text, rows, groups } = writing;
  text.line(`float4 sum[${rows}] = {};`);
  text.block(`for (int u = group; group < ${groups} && u < ${chunk}; u += ${groups})`, () => {
    text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
      text.line('const int column = columnOf[slot][r][u];');
      text.line('float4 value;');
      readColumn(writing, 'any', 1, 'value', 'at');
      text.block('if (column >= 0)', () => {
        addMixture(text, 'value');
      });
    });
  });
  storeMixture(writing);
}

function storeMixture({ text, rows, groups }: SplitWriting): void {
  text.block(`if (group < ${groups})`, () => {
    text.line('#pragma unroll');
    text.line(`for (int r = 0; r < ${rows}; r++) mixed[slot][group][r][at] = sum[r];`);
  });
}
