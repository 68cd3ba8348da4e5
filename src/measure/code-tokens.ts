/**
 * Answers as tokens of a program: Python, or a language with braces. A text that was cut anywhere has tokens too. Code
 * counts as Python unless it holds what Python cannot: `//` starts a comment in one and divides in the other.
 */

export type Language = 'python' | 'brace';

export interface Token {
  readonly kind: 'line' | 'word' | 'number' | 'string' | 'cut-string' | 'sign';
  /** Of a line: its indentation. */
  readonly text: string;
}

export const words = (list: string): ReadonlySet<string> => new Set(list.split(' '));

/** Words that stand before an operand, or between two. */
export const KEYWORDS = words(
  'and as assert async await case class def del delete do elif else except extends finally for from if import in ' +
    'instanceof is lambda match new not of or raise return switch throw try typeof while with yield',
);
const BRACE_OPERATORS = words('&& || => === !==');
/** Words that a brace language puts directly before a name. */
export const DECLARATIONS = words(
  'auto bool boolean char const double enum export extends final float fn func function int interface let long ' +
    'namespace new package private protected public static String string struct throw unsigned using var void',
);

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

export function tokenise(code: string, language: Language): Token[] {
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

export function isBraceLanguage(code: string): boolean {
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

export function isOperand(token: Token | undefined): boolean {
  if (token === undefined || token.kind === 'line') return false;
  if (token.kind === 'sign') return [')', ']', '}'].includes(token.text);
  return token.kind !== 'word' || !KEYWORDS.has(token.text);
}
