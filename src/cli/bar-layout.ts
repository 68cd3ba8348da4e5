/** A progress line that fits the terminal: the bar shrinks first, then words are dropped, the least important first. */
import { asOneLine } from './safe-text.js';

export interface BarContent {
  readonly label: string;
  readonly done: number;
  readonly total: number;
  /** Formats both counts. */
  readonly show?: (value: number) => string;
  /** Most important first. */
  readonly words: readonly string[];
}

const fullBar = 24;
const minBar = 6;
/** Prompt ids may be whole sentences. */
const maxWord = 28;
const gap = '  ';

/** At most `columns - 1` wide: some terminals start a new line after the last column. */
export function layOutBar({ label, done, total, show = String, words }: BarContent, columns: number): string {
  const room = Math.max(1, columns - 1);
  const count = `${show(done)}/${show(total)}`;
  const shown = words.map((word) => shorten(asOneLine(word), maxWord));
  for (let kept = shown.length; kept >= Math.min(1, shown.length); kept--) {
    const behind = [count, ...shown.slice(0, kept)];
    const size = Math.min(fullBar, room - widthOf([label, '', ...behind].join(gap)));
    if (size >= minBar) return [label, drawBar(done, total, size), ...behind].join(gap);
  }
  const [first] = shown;
  const essential = [count, ...(first === undefined ? [] : [first])];
  const withLabel = [label, ...essential].join(gap);
  return shorten(widthOf(withLabel) <= room ? withLabel : essential.join(gap), room);
}

function drawBar(done: number, total: number, size: number): string {
  const share = total === 0 ? 1 : Math.min(1, Math.max(0, done / total));
  const full = Math.round(share * size);
  return '\u2588'.repeat(full) + '\u2591'.repeat(size - full);
}

function shorten(text: string, room: number): string {
  if (widthOf(text) <= room) return text;
  let kept = '';
  for (const character of text) {
    if (widthOf(kept) + widthOf(character) > room - 1) break;
    kept += character;
  }
  return `${kept}…`;
}

const zeroWidth = /[\p{Mn}\p{Me}\p{Cf}]/u;
const doubleWidth =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;

/** Terminal columns: East Asian characters and emoji take two, combining marks none. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += zeroWidth.test(character) ? 0 : doubleWidth.test(character) ? 2 : 1;
  return width;
}
