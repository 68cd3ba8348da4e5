/** What became of the answers, in classes: for a cell, for a narrow cell, and as part of a sentence. */
import type { KeptClass } from '../measure/kept-class.js';
import { isKept, keptClasses } from '../measure/kept-class.js';

type KeptCounts = Readonly<Record<KeptClass, number>>;

export const keptNames: Readonly<Record<KeptClass, string>> = {
  identical: 'identical, token for token',
  task: 'same task result in other words',
  similar: 'similar (at least 90 % of the tokens in place)',
  different: 'different: not kept',
};

/** "22 identical · 1 task · 1 similar · 0 different" */
export function keptText(kept: KeptCounts): string {
  return keptClasses.map((name) => `${kept[name]} ${name}`).join(' · ');
}

/** "22/1/1/0", in the same order. */
export function keptDigits(kept: KeptCounts): string {
  return keptClasses.map((name) => kept[name]).join('/');
}

export function countAnswers(kept: KeptCounts): { readonly kept: number; readonly total: number } {
  const sum = (names: readonly KeptClass[]): number => names.reduce((total, name) => total + kept[name], 0);
  return { kept: sum(keptClasses.filter(isKept)), total: sum(keptClasses) };
}

const phrases: Readonly<Record<KeptClass, (one: boolean) => string>> = {
  identical: (one) => `${one ? 'is' : 'are'} identical`,
  task: (one) => `${one ? 'has' : 'have'} the same result`,
  similar: (one) => `${one ? 'is' : 'are'} similar`,
  different: (one) => `${one ? 'is' : 'are'} different`,
};

/** "22 of 24 answers are identical, 1 has the same result, 1 is similar" */
export function describeKept(kept: KeptCounts): string {
  const { total } = countAnswers(kept);
  const present = keptClasses.filter((name) => kept[name] > 0);
  const [first] = present;
  if (first === undefined) return 'no answer was compared';
  if (present.length === 1) {
    return total === 1
      ? `the answer ${phrases[first](true)}`
      : `all ${total} answers ${phrases[first](false)}`;
  }
  const parts = present.map((name, index) => {
    const count = index === 0 ? `${kept[name]} of ${total} answers` : kept[name];
    return `${count} ${phrases[name](kept[name] === 1)}`;
  });
  return parts.join(', ');
}
