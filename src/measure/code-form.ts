/**
 * The code of an answer, in a form that two answers share exactly when they are the same program up to layout:
 * comments, docstrings, blank lines, indentation width, white space between tokens, the quotes of plain strings, and
 * commas and semicolons that end nothing. The form is a list of tokens, never a parse, so that an answer cut anywhere
 * has one too; where two layouts might mean different things, their forms differ.
 *
 * Python is one line a statement, one tab a level; a language with braces is split at its braces and statements. Code
 * counts as Python unless it holds what Python cannot: `//` starts a comment in one and divides in the other.
 */

type Language = 'python' | 'brace';

interface Token {
  readonly kind: 'line' | 'word' | 'number' | 'string' | 'cut-string' | 'sign';
  /** Of a line: its indentation. */
  readonly text: string;
}

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

const words = (list: string): ReadonlySet<string> => new Set(list.split(' '));

const CLOSERS = new Map([
  ['(', ')'],
  ['[', ']'],
  ['{', '}'],
]);
/** Words that stand before an operand, or between two. */
const KEYWORDS = words(
  'and as assert async await case class def del delete do elif else except extends finally for from if import in ' +
    'instanceof is lambda match new not of or raise return switch throw try typeof while with yield',
);
const HEADERS = words('await for foreach if switch while with');
/** A line end behind these may end the statement, in JavaScript always. */
const RESTRICTED = words('break continue return throw yield');
/** Of these, the ones that other languages let go on in the next line. */
const CUTTING = words('return throw yield');
const JOINING = words(', = => && || + ? . else do');
const BRACE_OPERATORS = words('&& || => === !==');
/** Words that a brace language puts directly before a name. */
const DECLARATIONS = words(
  'auto bool boolean char const double enum export extends final float fn func function int interface let long ' +
    'namespace new package private protected public static String string struct throw unsigned using var void',
);

export function normaliseCode(code: string): string {
  const text = code.replaceAll(/\r\n?/gu, '\n');
  return isBraceLanguage(text)
    ? writeBraceForm(tokenise(text, 'brace'))
    : writePythonForm(tokenise(text, 'python'));
}

const SPACE = String.raw`(?<space>[^\S\n]+|\\[^\S\n]*\n[^\S\n]*)`;
const LINE = String.raw`(?<line>\n[^\S\n]*)`;
// A string ends at its quote, or was cut: by the end of the text, with one quote by the end of the line too.
const ESCAPE = String.raw`\\(?:[^]|$)`;
const STRING = [
  String.raw`(?<triple>"""|''')(?:${ESCAPE}|(?!\k<triple>)[^\\])*(?<tripleEnd>\k<triple>)?`,
  String.raw`(?<single>["'])(?:${ESCAPE}|(?!\k<single>)[^\\\n])*(?<singleEnd>\k<single>)?`,
].join('|');
const NESTED_TEMPLATE = '\\$\\{(?:[^`{}]|`[^`]*`)*\\}';
const TEMPLATE = `(?<template>\`)(?:${ESCAPE}|${NESTED_TEMPLATE}|[^\\\\\`])*(?<templateEnd>\`)?`;
const DECIMAL = String.raw`(?:\d[\d_]*(?:\.(?!\.)[\d_]*)?|\.\d[\d_]*)(?:[eE][-+]?\d+)?\w*`;
const NUMBER = String.raw`(?<number>0[xXbBoO]\w+|${DECIMAL})`;
const WORD = String.raw`(?<word>[\p{ID_Start}_$][\p{ID_Continue}$]*)`;
const ASSIGNMENTS = String.raw`(?:\*\*|//|<<|>>>?|&&|\|\||\?\?)=|[!=]==|[-!=<>:+*/%&|^@]=`;
const SIGNS = String.raw`${ASSIGNMENTS}|>>>|\.{3}|[-=]>|\*\*|//|<<|>>|&&|\|\|`;
const BRACE_SIGNS = String.raw`${SIGNS}|\+\+|--|::|\?\?|\?\.|\.\.`;
const BRACE_COMMENT = String.raw`//[^\n]*|/\*[^]*?(?:\*/|$)`;
const PATTERNS: Readonly<Record<Language, RegExp>> = {
  python: new RegExp(
    `${SPACE}|${LINE}|(?<comment>#[^\\n]*)|(?<string>(?<prefix>[rRbBuUfFtT]{0,2})(?:${STRING}))` +
      `|${NUMBER}|${WORD}|(?<sign>${SIGNS}|[^])`,
    'uy',
  ),
  brace: new RegExp(
    `${SPACE}|${LINE}|(?<comment>${BRACE_COMMENT})|(?<string>${STRING}|${TEMPLATE})` +
      `|${NUMBER}|${WORD}|(?<sign>${BRACE_SIGNS}|[^])`,
    'uy',
  ),
};
const REGULAR_EXPRESSION = /\/(?![/*])(?:\\[^\n]|\[(?:\\[^\n]|[^\]\\\n])*\]|[^/\\[\n])+\/\p{ID_Continue}*/uy;

function tokenise(code: string, language: Language): Token[] {
  const source = `\n${code}`;
  const pattern = PATTERNS[language];
  const tokens: Token[] = [];
  for (let at = 0; at < source.length;) {
    const literal =
      language === 'brace' && !isOperand(tokens.at(-1)) ? matchAt(REGULAR_EXPRESSION, source, at) : null;
    const match = literal ?? matchAt(pattern, source, at)!;
    at += match[0].length;
    const groups = match.groups ?? {};
    if (literal !== null) tokens.push({ kind: 'string', text: literal[0] });
    else if (groups.line !== undefined) tokens.push({ kind: 'line', text: groups.line.slice(1) });
    else if (groups.comment !== undefined) {
      if (groups.comment.includes('\n')) tokens.push({ kind: 'line', text: '' });
    } else if (groups.string !== undefined) tokens.push(readString(groups, language));
    else if (groups.number !== undefined) tokens.push({ kind: 'number', text: groups.number });
    else if (groups.word !== undefined) tokens.push({ kind: 'word', text: groups.word });
    else if (groups.sign !== undefined) tokens.push({ kind: 'sign', text: groups.sign });
  }
  return tokens;
}

function matchAt(pattern: RegExp, source: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(source);
}

function readString(groups: Readonly<Record<string, string | undefined>>, language: Language): Token {
  const { string: text = '', prefix = '' } = groups;
  if (groups.templateEnd !== undefined) return { kind: 'string', text };
  const quote = groups.tripleEnd ?? groups.singleEnd;
  if (quote === undefined) return { kind: 'cut-string', text };
  const content = text.slice(prefix.length + quote.length, -quote.length);
  // One quoted letter is a character in C, and `'$name'` is not `"$name"` in PHP.
  const plain = language === 'python' ? /^[^'"\\]*$/u : /^(?:[^'"\\${}#]{2,})?$/u;
  const canonical = plain.test(content) ? '"'.repeat(quote.length) : quote;
  return { kind: 'string', text: prefix + canonical + content + canonical };
}

function isBraceLanguage(code: string): boolean {
  const pythonHeader =
    /^\s*(?:async )?(?:def|class|if|elif|else|for|while|try|except|finally|with)\b[^{};?\n]*:[^\S\n]*(?:#.*)?$/mu;
  if (pythonHeader.test(code)) return false;
  const tokens = tokenise(code, 'python');
  let parentheses = 0;
  let beforeLines = '';
  return tokens.some(({ kind, text }, index) => {
    const next = tokens[index + 1];
    const opensBlock = text === '{' && (beforeLines === ')' || isOperand(tokens[index - 1]));
    if (kind === 'sign' && text === '(') parentheses++;
    if (kind === 'sign' && text === ')') parentheses = Math.max(0, parentheses - 1);
    if (kind !== 'line') beforeLines = text;
    if (kind === 'sign') return opensBlock || BRACE_OPERATORS.has(text) || (text === ';' && parentheses > 0);
    return kind === 'word' && DECLARATIONS.has(text) && next?.kind === 'word' && !KEYWORDS.has(next.text);
  });
}

function isOperand(token: Token | undefined): boolean {
  if (token === undefined || token.kind === 'line') return false;
  if (token.kind === 'sign') return [')', ']', '}'].includes(token.text);
  return token.kind !== 'word' || !KEYWORDS.has(token.text);
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
  const shallowest = Math.min(...deeper);
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

/** The first fenced block, or the whole text where it is code without a fence. */
export function extractCode(text: string): string | undefined {
  const fence = /^[^\S\n]*(?<mark>`{3,}|~{3,})(?<language>[^\n`]*)(?:\n|$)/mu.exec(text);
  if (fence === null) return isBareCode(text) ? dropStraySpace(text) : undefined;
  const before = text.slice(0, fence.index);
  // The fence that ends what the question began.
  if (fence.groups?.language?.trim() === '' && isBareCode(before)) return dropStraySpace(before);
  const rest = text.slice(fence.index + fence[0].length);
  const mark = fence.groups!.mark!;
  const end = new RegExp(String.raw`^[^\S\n]*(?:${mark}|${mark[0]!}{1,2}$(?![^]))`, 'mu').exec(rest);
  const content = end === null ? rest : rest.slice(0, end.index);
  return content.trim() === '' ? undefined : content;
}

/** Tokenizers that mark words by the space before them put one before the first word too. */
function dropStraySpace(text: string): string {
  const { space = '' } = /^(?:[^\S\n]*\n)*(?<space> *)/u.exec(text)?.groups ?? {};
  return space.length % 2 === 1 ? text.replace(/^((?:[^\S\n]*\n)*) /u, '$1') : text;
}

const STATEMENTS: readonly RegExp[] = [
  /^(?:async )?def \w+\s*\(/u,
  /^class \w+(?: (?:extends|implements) [\w, ]+)?\s*[(:{]/u,
  /^(?:export )?(?:default )?(?:async )?function\b\s*\*?\s*\w*\s*\(/u,
  /^(?:import [\w.]+(?: as \w+)?(?:, *[\w.]+)*;?|from [\w.]+ import .+|import .+ from ['"].+)$/u,
  /^#include\s*[<"]/u,
  /^(?:const|let|var) [\w{[].*=/u,
  /^(?:public|private|protected|static|func|fn) .*[({};]$/u,
  /^(?:\} ?)?(?:if|else|for|while|switch|try|catch)\b.*\{$/u,
  /(?:\)|=.*\S)\s*;$/u,
];
/** These begin sentences too, so that no two names may stand side by side behind them. */
const LIKELY_STATEMENTS: readonly RegExp[] = [
  /^(?:return|raise|yield|assert|throw)(?:\s+.*[^.!?]|\s*\(.*)?$/u,
  /^(?:if|elif|while|with|except) .+:$/u,
  /^for [\w, ()]+ in .+:$/u,
  /^(?:else|try|finally|except)\s*:$/u,
  /^print\s*\(/u,
];

function isBareCode(text: string): boolean {
  const bare = text
    .replaceAll(/("""|''')[^]*?(?:\1|$)/gu, '""')
    .replaceAll(/"[^"\n]*"|(?<!\w)'[^'\n]*'/gu, '""')
    .replaceAll(/(?:#(?!include)|\/\/ ).*$/gmu, '');
  let statements = 0;
  let sentences = 0;
  for (const line of bare.split('\n').map((line) => line.trim())) {
    const pairs = countWordPairs(line);
    const matches = (pattern: RegExp) => pattern.test(line);
    if (STATEMENTS.some(matches) || (pairs === 0 && LIKELY_STATEMENTS.some(matches))) statements++;
    else if (pairs > 1) sentences++;
  }
  return statements > 0 && statements >= sentences;
}

/** Names side by side: code has hardly any, prose many. */
function countWordPairs(line: string): number {
  let pairs = 0;
  for (const phrase of line.match(/[\p{L}\p{N}_']+(?: +[\p{L}\p{N}_']+)*/gu) ?? []) {
    const names = phrase.split(/ +/u).map((word) => !KEYWORDS.has(word) && !DECLARATIONS.has(word));
    pairs += names.filter((isName, index) => isName && names[index + 1] === true).length;
  }
  return pairs;
}
