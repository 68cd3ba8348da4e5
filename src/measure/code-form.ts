/**
 * The code of an answer, in a form that two answers share exactly when they are the same program up to layout:
 * comments, docstrings, blank lines, indentation width, white space between tokens, the quotes of plain strings, and
 * commas and semicolons that end nothing. The form is a list of tokens, never a parse, so that an answer cut anywhere
 * has one too; where two layouts might mean different things, their forms differ.
 *
 * Python is one line a statement, one tab a level; a language with braces is split at its braces and statements. Code
 * counts as Python unless it holds what Python cannot: `//` starts a comment in one and divides in the other.
 */
import { smallest } from '../core/long-lists.js';
import type { Token } from './code-tokens.js';
import { isBraceLanguage, isOperand, tokenise, words } from './code-tokens.js';

interface Opener {
  readonly closer: string;
  /** A comma makes a tuple in it: `(a,)` or `key[a,]`, not `call(a,)` or `[a,]`. */
  readonly tuples: boolean;
  /** Whether it holds the condition of an `if`, `for`, `while` ... */
  readonly header: boolean;
  commas: number;
  /** A lambda's parameters have commas of their own. */
  lambda: boolean;
}

const CLOSERS = new Map([
  ['(', ')'],
  ['[', ']'],
  ['{', '}'],
]);
const HEADERS = words('await for foreach if switch while with');
/** A line end behind these may end the statement, in JavaScript always. */
const RESTRICTED = words('break continue return throw yield');
/** Of these, the ones that other languages let go on in the next line. */
const CUTTING = words('return throw yield');
const JOINING = words(', = => && || + ? . else do');
export function normaliseCode(code: string): string {
  const text = code.replaceAll(/\r\n?/gu, '\n');
  return isBraceLanguage(text)
    ? writeBraceForm(tokenise(text, 'brace'))
    : writePythonForm(tokenise(text, 'python'));
}

/** Notes what a token opens, closes or separates; at a closing one, takes the harmless comma off the end of the line. */
function trackBrackets(openers: Opener[], line: Token[], token: Token, previous: Token | undefined): void {
  const top = openers.at(-1);
  const closer = CLOSERS.get(token.text);
  if (token.kind === 'word' && token.text === 'lambda' && top !== undefined) top.lambda = true;
  if (token.kind !== 'sign') return;
  if (closer !== undefined) {
    const called = isOperand(previous) && previous?.text !== '}';
    const tuples = closer === ')' ? !called : closer === ']' && isOperand(previous);
    const header = previous?.kind === 'word' && HEADERS.has(previous.text);
    openers.push({ closer, tuples, header, commas: 0, lambda: false });
  } else if (token.text === ',' && top !== undefined) top.commas++;
  else if ([')', ']', '}'].includes(token.text)) {
    const index = openers.findLastIndex((opener) => opener.closer === token.text);
    if (index < 0) return;
    if (hasHarmlessComma(openers[index]!, line)) line.pop();
    openers.length = index;
  }
}

/** Not the comma that makes a tuple of one, nor one that stands for an empty place. */
function hasHarmlessComma({ tuples, commas, lambda }: Opener, line: readonly Token[]): boolean {
  const before = line.at(-2);
  if (line.at(-1)?.text !== ',' || before === undefined) return false;
  if (before.kind === 'sign' && (before.text === ',' || CLOSERS.has(before.text))) return false;
  return !tuples || (commas > 1 && !lambda);
}

interface PythonLine {
  readonly width: number;
  readonly tokens: Token[];
}

function writePythonForm(tokens: readonly Token[]): string {
  const lines: PythonLine[] = [];
  let openers: Opener[] = [];
  for (const token of tokens) {
    if (token.kind === 'line') {
      if (openers.length === 0) lines.push({ width: measureIndentation(token.text), tokens: [] });
      continue;
    }
    const line = lines.at(-1)!.tokens;
    trackBrackets(openers, line, token, line.at(-1));
    // Nobody knows what a string that lacks its end was to close.
    if (token.kind === 'cut-string') openers = [];
    line.push(token);
  }
  for (const line of lines) while (line.tokens.at(-1)?.text === ';') line.tokens.pop();
  const statements = lines.filter((line) => !line.tokens.every(isWithoutEffect));
  const levels = measureLevels(statements);
  return statements.map((line, index) => '\t'.repeat(levels[index]!) + join(line.tokens)).join('\n');
}

/** A string that stands alone documents; what a formatted one holds is run. */
function isWithoutEffect(token: Token): boolean {
  return token.kind === 'string' && !/^\w*[ft]/iu.test(token.text);
}

function join(tokens: readonly Token[]): string {
  return tokens.map((token) => token.text).join(' ');
}

/** As Python counts: a tab goes on to the next multiple of 8. */
function measureIndentation(space: string): number {
  let width = 0;
  for (const character of space) width = character === '\t' ? width + 8 - (width % 8) : width + 1;
  return width;
}

/** A piece of a program may begin deeper than it ends, so every new low is a level of its own. */
function measureLevels(lines: readonly PythonLine[]): number[] {
  const widths = lines.map((line) => line.width);
  widths[0] = restoreFirstWidth(lines);
  const lows: number[] = [];
  for (const width of widths) if (lows.length === 0 || width < lows[0]!) lows.unshift(width);
  const stack = lows;
  return widths.map((width) => {
    while (stack.length > 1 && stack.at(-1)! > width) stack.pop();
    if (stack.at(-1)! < width) stack.push(width);
    return stack.length - 1;
  });
}

/** An answer that goes on inside a function often lost the white space it began with: Python allows one reading. */
function restoreFirstWidth(lines: readonly PythonLine[]): number {
  const [first, second] = lines;
  if (first === undefined || second === undefined || second.width <= first.width) return first?.width ?? 0;
  if (first.tokens.at(-1)?.text !== ':') return second.width;
  const end = lines.findIndex((line, index) => index > 0 && line.width <= first.width);
  const deeper = lines.slice(1, end < 0 ? undefined : end).map((line) => line.width);
  const shallowest = smallest(deeper);
  return shallowest < second.width ? shallowest : first.width;
}

function writeBraceForm(tokens: readonly Token[]): string {
  const lines: Token[][] = [[]];
  const openers: Opener[] = [];
  let previous: Token | undefined;
  let lineEnds = false;
  let headerEnds = false;
  const inParentheses = () => openers.length > 0 && openers.at(-1)!.closer !== '}';
  for (const [index, token] of tokens.entries()) {
    const { kind, text } = token;
    if (kind === 'line') {
      lineEnds ||= !inParentheses() && !headerEnds && !JOINING.has(previous?.text ?? '');
      continue;
    }
    const sign = kind === 'sign' ? text : '';
    const separates = sign === ';' && !inParentheses();
    if (separates && isHarmlessSemicolon(previous, headerEnds, findNext(tokens, index))) {
      lineEnds = true;
      continue;
    }
    if (sign === '{' && !RESTRICTED.has(previous?.text ?? '')) lineEnds = false;
    if (sign === ',' || (sign === '.' && isOperand(previous))) lineEnds = false;
    headerEnds = sign === ')' && openers.findLast((opener) => opener.closer === ')')?.header === true;
    trackBrackets(openers, lines.at(-1)!, token, previous);
    if (lineEnds || sign === '}') lines.push([]);
    lines.at(-1)!.push(token);
    previous = token;
    lineEnds = separates || sign === '{' || (sign === '}' && !inParentheses()) || kind === 'cut-string';
    if (kind === 'cut-string') openers.length = 0;
  }
  return lines
    .filter((line) => line.length > 0)
    .map(join)
    .join('\n');
}

function findNext(tokens: readonly Token[], index: number): Token | undefined {
  return tokens.slice(index + 1).find((token) => token.kind !== 'line');
}

/** Harmless where the end of the line would do as well; an empty body, and a line that would go on, need it. */
function isHarmlessSemicolon(
  previous: Token | undefined,
  headerEnds: boolean,
  next: Token | undefined,
): boolean {
  if (headerEnds || JOINING.has(previous?.text ?? '')) return false;
  if (next === undefined || next.text === '}' || next.text === ';') return true;
  return next.kind !== 'sign' && !/^[`/]/u.test(next.text) && !CUTTING.has(previous?.text ?? '');
}
