/**
 * Which texts share a row of a batch, and which rows a batch, from the lengths of the texts alone. Texts are known by
 * their places in a list from long to short.
 *
 *   padded  a text has a row, and a batch has rows of like length
 *   packed  a row has as many texts as fit it, and all rows have one length
 *
 * The longer packed rows are, the less of them stays empty, and the more attention computes that nobody sees: the shortest
 * rows are taken that are full enough.
 */

/** Rows of one length, and how many of them make a batch. */
export interface Shelf {
  readonly length: number;
  readonly rowsOfBatch: number;
  /** Places of the texts of each row. */
  readonly rows: readonly (readonly number[])[];
}

/** Lengths of rows are multiples of this, so that a program sees few of them. */
const lengthStep = 16;

/** Share of the positions of packed rows that may stay empty. */
const fullEnough = 0.02;

export const roundUp = (length: number): number => Math.ceil(length / lengthStep) * lengthStep;

/** Cut from long to short: a batch has as many texts as fit it at the length of its first. */
export function padTexts(lengths: readonly number[], batchTokens: number): readonly Shelf[] {
  const shelves: Shelf[] = [];
  for (let start = 0; start < lengths.length; start += shelves.at(-1)!.rowsOfBatch) {
    const length = roundUp(lengths[start]!);
    const count = Math.min(Math.max(1, Math.floor(batchTokens / length)), lengths.length - start);
    const rows = Array.from({ length: count }, (_, row) => [start + row]);
    shelves.push({ length, rowsOfBatch: count, rows });
  }
  return shelves;
}

/** A text that is longer than a batch is meant to be has a batch of its own. */
export function packTexts(lengths: readonly number[], batchTokens: number): readonly Shelf[] {
  const first = lengths.findIndex((length) => roundUp(length) <= batchTokens);
  const oversized = first < 0 ? lengths : lengths.slice(0, first);
  const shelves: Shelf[] = oversized.map((length, place) => ({
    ...{ length: roundUp(length), rowsOfBatch: 1 },
    rows: [[place]],
  }));
  if (first < 0) return shelves;
  const rest = lengths.slice(first);
  const tokens = rest.reduce((sum, length) => sum + length, 0);
  const shareEmpty = ({ length, rows }: Shelf): number => 1 - tokens / (length * rows.length);
  const tried: Shelf[] = []; // from short rows to long ones
  for (let count = Math.floor(batchTokens / roundUp(rest[0]!)); count >= 1; count = Math.floor(count / 2))
    tried.push(fillShelf(rest, batchTokens, count));
  const taken =
    tried.find((shelf) => shareEmpty(shelf) <= fullEnough) ??
    tried.reduce((left, right) => (shareEmpty(right) < shareEmpty(left) ? right : left));
  return [...shelves, { ...taken, rows: taken.rows.map((row) => row.map((place) => first + place)) }];
}

/** Rows of the length at which so many of them make a batch, or of what the fullest has. */
function fillShelf(lengths: readonly number[], batchTokens: number, rowsOfBatch: number): Shelf {
  const room = Math.floor(batchTokens / rowsOfBatch / lengthStep) * lengthStep;
  const rows = fillRows(lengths, room);
  const filled = rows.map((row) => row.reduce((sum, place) => sum + lengths[place]!, 0));
  const fullest = filled.reduce((most, count) => Math.max(most, count), 0);
  return { length: roundUp(fullest), rowsOfBatch: Math.min(rowsOfBatch, rows.length), rows };
}

/** Best fit: a text goes where it leaves least room, and begins a row where it fits into none. */
function fillRows(lengths: readonly number[], room: number): readonly (readonly number[])[] {
  const rows: number[][] = [];
  const byRoom = Array.from({ length: room + 1 }, (): number[] => []); // [room left] rows
  lengths.forEach((length, place) => {
    let left = length;
    while (left < room && byRoom[left]!.length === 0) left += 1;
    const row = byRoom[left]!.pop() ?? rows.push([]) - 1;
    rows[row]!.push(place);
    byRoom[left - length]!.push(row);
  });
  return rows;
}
