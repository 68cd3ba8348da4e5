/** Small pieces of text that more than one part of the page shows. */
import type { KeptClass } from '../../../measure/kept-class.js';
import { keptClasses } from '../../../measure/kept-class.js';
import { keptNames } from '../../kept-text.js';
import type { Markup } from '../markup.js';
import { fragment } from '../markup.js';

/** No line ends inside "p = 0.031" or "46 %". */
export function keepTogether(sentence: string): string {
  return sentence.replace(/(?<=\b[pn]) (?=[=<])|(?<=[=<]) | (?=%)/g, '\u00a0');
}

/** Counts by class, each class whole on its line; classes without an answer step back. */
export function listClasses(kept: Readonly<Record<KeptClass, number>>): Markup {
  const parts = keptClasses.map((name, index) => {
    const classes = kept[name] === 0 ? 'nowrap zero' : 'nowrap';
    const separator = index === keptClasses.length - 1 ? '' : ' · ';
    return fragment`<span class="${classes}" title="${keptNames[name]}">${kept[name]} ${name}</span>${separator}`;
  });
  return fragment`<span class="classes">${parts}</span>`;
}
