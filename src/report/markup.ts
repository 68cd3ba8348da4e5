/**
 * Text of models and users in markup. The `fragment` tag escapes every string; only its own results and `trusted` text
 * (style and script) are inserted unchanged. Answers may contain tags, quotes, terminal escapes and characters that
 * reverse the reading direction: nothing is dropped, and what cannot be shown becomes a visible stand-in.
 */
const htmlEntities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** For element content and quoted attribute values, in HTML and in XML. */
export function escapeMarkup(text: string): string {
  return text.replace(/[&<>"']/g, (character) => htmlEntities[character]!);
}

/**
 * Control characters as their pictures (U+0007 becomes ␇), direction marks and lone surrogates as their code point.
 * Line ends and tabs stay.
 */
export function showInvisible(text: string): string {
  return text
    .replace(/\r\n/g, '\n')
    .replace(
      /(?![\n\t])[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]/gu,
      picture,
    )
    .replace(/\p{Cs}/gu, picture);
}

function picture(character: string): string {
  const code = character.codePointAt(0)!;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return '\u2421';
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`;
}

/** XML 1.0 cannot represent most control characters, so they become stand-ins. */
export function escapeXml(text: string): string {
  // A raw line end inside an attribute would be read back as a space.
  return escapeMarkup(showInvisible(text)).replace(/[\n\t]/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** For a cell or a part of a line: no markup, no links, no mentions. */
export function escapeMarkdown(text: string): string {
  return (
    showInvisible(text)
      // Narrow spaces inside numbers stay.
      .replace(/[^\S\u00a0\u202f]+/g, ' ')
      .replace(/[\\`*_[\]|~<>&]/g, '\\$&')
      .replace(/@|:(?=\/\/)|www(?=\.)/g, '$&\u200b')
  );
}

export interface Markup {
  readonly markup: string;
}

export type Content = Markup | string | number | null | undefined | false | readonly Content[];

export function fragment(parts: TemplateStringsArray, ...contents: readonly Content[]): Markup {
  const markup = parts.reduce((text, part, index) => text + toMarkup(contents[index - 1]) + part);
  return { markup };
}

export function trusted(markup: string): Markup {
  return { markup };
}

function toMarkup(content: Content): string {
  if (content === null || content === undefined || content === false) return '';
  if (typeof content === 'string') return escapeMarkup(showInvisible(content));
  if (typeof content === 'number') return String(content);
  if ('markup' in content) return content.markup;
  return content.map(toMarkup).join('');
}
