/** Parses a chat template, which is a stranger's program, if its size and blanks allow for that in a moment. */
import * as jinja from '@huggingface/jinja';

/** The largest published templates have some 20,000 characters. */
const longestSource = 256 * 1024;
const longestBlank = 1000;
/** The library's lexer takes time by the square of a run of blanks: this is the sum over all runs. */
const maxBlankSquares = 5_000_000;

export function parseTemplate(source: string): jinja.Template {
  if (source.length > longestSource)
    throw new Error(`it has ${source.length} characters; at most ${longestSource} are read`);
  refuseBlanks(source);
  try {
    return new jinja.Template(source);
  } catch (cause) {
    // The library reads on behind the last token, and nests by recursion.
    if (cause instanceof TypeError) throw new Error('it ends where more was expected', { cause });
    if (cause instanceof RangeError) throw new Error('it nests too deeply', { cause });
    throw cause;
  }
}

function refuseBlanks(source: string): void {
  let squares = 0;
  for (const { 0: blanks, index } of source.matchAll(/\s+/g)) {
    squares += blanks.length ** 2;
    if (blanks.length > longestBlank)
      throw new Error(`it has more than ${longestBlank} blanks in a row, at character ${index + 1}`);
    if (squares > maxBlankSquares)
      throw new Error(`it has too many blanks in long runs, up to character ${index + 1}`);
  }
}
