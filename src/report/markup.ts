/**
 * Markup that cannot be forgotten to be escaped: the `fragment` tag escapes every string put into it, and only what the
 * tag itself made goes in as it is. `trusted` is for what this room draws or writes: charts, style and script.
 */
import { escapeMarkup, showInvisible } from './escape.js';

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

export const nothing: Markup = { markup: '' };

function toMarkup(content: Content): string {
  if (content === null || content === undefined || content === false) return '';
  if (typeof content === 'string') return escapeMarkup(showInvisible(content));
  if (typeof content === 'number') return String(content);
  if ('markup' in content) return content.markup;
  return content.map(toMarkup).join('');
}
