/** Sentences told in another order: what a subordinate clause says first or last, what is asked first or last. */
import type { Random } from '../../core/random.js';
import { commands } from './wordings.js';

const conjunctions = 'if|when|while|after|before|because|although|unless|until';
const clauseFirst = new RegExp(
  `^(${conjunctions})\\s+([^,.?!]+),\\s+(?:then\\s+)?((?!and |or |but )[^.?!]+)([.?!])$`,
  'i',
);
/** What is meant by "find out if" is no condition: the main clause has some words of its own. */
const clauseLast = new RegExp(
  `^((?:[^\\s,.?!]+\\s+){2}[^,.?!]+?),?\\s+(${conjunctions})\\s+([^,.?!]+)([.?!])$`,
  'i',
);
/** First words that are no names: only these lose their capital inside a sentence. */
const common = new RegExp(
  '^(?:the|an?|he|she|it|they|we|you|his|her|its|their|our|your|this|that|these|those|there|each|every|all|what|' +
    'which|who|how|why|where|is|are|was|were|do|does|did|can|could|will|would|should|' +
    `${commands.join('|')})\\b`,
  'i',
);

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
const inside = (text: string): string =>
  common.test(text) ? text.charAt(0).toLowerCase() + text.slice(1) : text;

/** Paragraph by paragraph; blanks between them stay. */
export function reorderClauses(prose: string, random: Random): string {
  const turns = random.next() < 0.5;
  const moves = random.next() < 0.5;
  return prose
    .split(/(\n+)/)
    .map((paragraph) => {
      const body = paragraph.trim();
      if (body === '') return paragraph;
      const [lead, tail] = paragraph.split(body, 2);
      const sentences = body.split(/(?<=[.?!])\s+(?=["\p{Lu}])/u);
      const turned = turns ? sentences.map(turnSentence) : sentences;
      return (lead ?? '') + (moves ? askFirst(turned) : turned).join(' ') + (tail ?? '');
    })
    .join('');
}

/** "If it rains, who comes?" and "Who comes if it rains?" */
export function turnSentence(sentence: string): string {
  const first = clauseFirst.exec(sentence);
  if (first !== null) {
    const [, conjunction = '', clause = '', main = '', mark = ''] = first;
    return `${capital(main)} ${conjunction.toLowerCase()} ${clause}${mark}`;
  }
  const last = clauseLast.exec(sentence);
  if (last === null) return sentence;
  const [, main = '', conjunction = '', clause = '', mark = ''] = last;
  return `${capital(conjunction)} ${clause}, ${inside(main)}${mark}`;
}

/** A question behind what it is about moves before it, and back. */
function askFirst(sentences: readonly string[]): readonly string[] {
  if (sentences.length < 2) return sentences;
  const [first = '', last = ''] = [sentences[0], sentences.at(-1)];
  if (last.endsWith('?')) return [last, ...sentences.slice(0, -1)];
  return first.endsWith('?') && /[.!]$/.test(last) ? [...sentences.slice(1), first] : sentences;
}
