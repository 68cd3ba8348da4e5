/**
 * Parses and runs chat templates, which are untrusted code. They get the globals of transformers' sandbox and a fixed date;
 * the library's own `render` has other globals, and its `strftime_now` reads the clock and the machine's locale.
 */
import type { Template } from '@huggingface/jinja';
import * as jinja from '@huggingface/jinja';
import { createScope, interpret } from './bounded-interpreter.js';
import { formatDay, type CalendarDay } from './calendar-day.js';

/** The largest published templates have about 20,000 characters. */
const maxSourceLength = 256 * 1024;
const maxBlankRun = 1000;
/** The library's lexer takes quadratic time in the length of a run of blanks: this limits the sum over all runs. */
const maxBlankSquares = 5_000_000;

export function parseTemplate(source: string): jinja.Template {
  if (source.length > maxSourceLength)
    throw new Error(`it has ${source.length} characters; at most ${maxSourceLength} are read`);
  refuseBlanks(source);
  try {
    return new jinja.Template(source);
  } catch (cause) {
    // The library reads past the last token, and recurses for each level of nesting.
    if (cause instanceof TypeError) throw new Error('it ends where more was expected', { cause });
    if (cause instanceof RangeError) throw new Error('it nests too deeply', { cause });
    throw cause;
  }
}

function refuseBlanks(source: string): void {
  let squares = 0;
  for (const { 0: blanks, index } of source.matchAll(/\s+/g)) {
    squares += blanks.length ** 2;
    if (blanks.length > maxBlankRun)
      throw new Error(`it has more than ${maxBlankRun} blanks in a row, at character ${index + 1}`);
    if (squares > maxBlankSquares)
      throw new Error(`it has too many blanks in long runs, up to character ${index + 1}`);
  }
}

const maxFormatLength = 1000;
/** Jinja's sandbox has the same bound. */
const maxRangeLength = 100_000;

export function runTemplate(
  program: Template,
  variables: Readonly<Record<string, unknown>>,
  date: CalendarDay,
): string {
  const scope = createScope();
  const globals: Readonly<Record<string, unknown>> = {
    true: true,
    True: true,
    false: false,
    False: false,
    none: null,
    None: null,
    raise_exception(message: unknown) {
      // A list would be written out.
      throw new Error(typeof message === 'string' ? message : 'it raised an exception');
    },
    range: listRange,
    strftime_now(format: unknown) {
      if (typeof format !== 'string' || format.length > maxFormatLength)
        throw new Error(`strftime_now() takes one text, the format, of up to ${maxFormatLength} characters`);
      return formatDay(date, format);
    },
  };
  for (const [name, value] of Object.entries({ ...globals, ...variables })) scope.set(name, value);
  return interpret(program, scope);
}

function listRange(first: number, second?: number, step = 1): number[] {
  const [start, stop] = second === undefined ? [0, first] : [first, second];
  if (![start, stop, step].every(Number.isSafeInteger) || step === 0) {
    throw new Error('range() takes whole numbers, and a step that is not 0');
  }
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (length > maxRangeLength)
    throw new Error(`range() of ${length} numbers; at most ${maxRangeLength} are allowed`);
  return Array.from({ length }, (_, index) => start + index * step);
}
