/**
 * The code of an answer without comments, docstrings, blank lines, spacing, indentation width and the quotes of plain
 * strings, so that two answers with the same program in another layout compare equal. It is tokens, not a parse, so a
 * cut answer has a form too. Where a difference might matter, the forms differ.
 */
const string = [
  String.raw`(?<triple>"""|''')(?:\\[^]|(?!\k<triple>)[^\\])*(?:\k<triple>|$)`,
  String.raw`(?<quote>["'])(?:\\[^]|(?!\k<quote>)[^\\\n])*(?:\k<quote>|(?=\n)|$)`,
].join('|');
const rest = String.raw`(?<space>(?:[^\S\n]|\\\n)+)|(?<line>\n)|(?<word>[\p{L}\p{N}_$]+)|[^]`;
const patterns = {
  python: new RegExp(`(?<comment>#[^\\n]*)|(?<prefix>\\b[rRbBuUfFtT]{1,2})?(?:${string})|${rest}`, 'gu'),
  // In a regular expression, // and /* follow another character.
  brace: new RegExp(
    `(?<comment>(?<!\\S)(?://[^\\n]*|/\\*[^]*?(?:\\*/|$)))|\`(?:\\\\[^]|[^\\\\\`])*\`?|${string}|${rest}`,
    'gu',
  ),
};
const pythonHeader =
  /^[^\S\n]*(?:async )?(?:def|class|if|elif|else|for|while|try|except|finally|with)\b[^{};?\n]*:[^\S\n]*(?:#.*)?$/mu;

interface Line {
  width: number;
  text: string;
  /** A string alone, which documents. */
  isString: boolean;
}

export function normaliseCode(code: string): string {
  const source = code.replaceAll(/\r\n?/gu, '\n');
  const isPython = pythonHeader.test(source) || !/[{};]\s*$/mu.test(source);
  const lines = splitLines(source, isPython).filter(
    ({ text, isString }) => text !== '' && !(isPython && isString),
  );
  // Levels instead of widths: any two lines compare as before, so the blocks are the same.
  const widths = [...new Set(lines.map(({ width }) => width))].sort((left, right) => left - right);
  return lines.map(({ width, text }) => '\t'.repeat(isPython ? widths.indexOf(width) : 0) + text).join('\n');
}

function splitLines(source: string, isPython: boolean): Line[] {
  const lines: Line[] = [{ width: 0, text: '', isString: false }];
  let depth = 0;
  let space = '';
  for (const { 0: text, groups = {} } of source.matchAll(patterns[isPython ? 'python' : 'brace'])) {
    const line = lines.at(-1)!;
    if (groups.comment !== undefined) continue;
    if (groups.line !== undefined && (depth === 0 || !isPython)) {
      lines.push({ width: 0, text: '', isString: false });
      space = '';
    } else if (groups.space !== undefined || groups.line !== undefined) {
      if (line.text === '') line.width = measureIndentation(text);
      space = ' ';
    } else {
      depth = Math.max(0, depth + Number('([{'.includes(text)) - Number(')]}'.includes(text)));
      const quote = groups.triple ?? groups.quote ?? '';
      const isClosed = quote !== '' && text.length >= 2 * quote.length && text.endsWith(quote);
      line.isString = line.text === '' && isClosed && !/^[ft]/iu.test(groups.prefix ?? '');
      // Spaces matter between two words and between two signs.
      const isApart = line.text !== '' && isWord(line.text.at(-1)!) === isWord(text.at(0)!);
      line.text += (isApart ? space : '') + (isPython ? normaliseQuotes(text) : text);
      space = '';
    }
  }
  return lines;
}

const isWord = (character: string): boolean => /[\p{L}\p{N}_$"'`]/u.test(character);

/** As Python counts: a tab advances to the next multiple of 8. */
function measureIndentation(space: string): number {
  let width = 0;
  for (const character of space) width = character === '\t' ? width + 8 - (width % 8) : width + 1;
  return width;
}

const normaliseQuotes = (text: string): string =>
  text.replace(/^(\w{0,2})('{1}|'{3})([^'"\\]*)\2$/u, (_, prefix: string, quote: string, content: string) => {
    const plain = '"'.repeat(quote.length);
    return prefix + plain + content + plain;
  });

/** Finds the code of an answer: its first fenced block, or all of it. */

const words = (list: string): ReadonlySet<string> => new Set(list.split(' '));

/** Words before an operand, or between two. */
const KEYWORDS = words(
  'and as assert async await case class def del delete do elif else except extends finally for from if import in ' +
    'instanceof is lambda match new not of or raise return switch throw try typeof while with yield',
);
/** Words that a brace language puts directly before a name. */
const DECLARATIONS = words(
  'auto bool boolean char const double enum export extends final float fn func function int interface let long ' +
    'namespace new package private protected public static String string struct throw unsigned using var void',
);

/** The first fenced block, or the whole text where it is code without a fence. */
export function extractCode(text: string): string | undefined {
  const fence = /^[^\S\n]*(?<mark>`{3,32}|~{3,32})(?<language>[^\n`]*)(?:\n|$)/mu.exec(text);
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
/** These begin sentences too, so they count only without two names side by side. */
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
