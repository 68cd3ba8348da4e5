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
