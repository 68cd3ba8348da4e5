/**
 * Questions reworded by rules: openings and politeness, the order of clauses, synonyms, contractions, punctuation. Code,
 * quotations and numbers stay as they are. The rules know English; a question in another language gets other openings and
 * marks. Nothing depends on a rewording to mean quite the same, because the target answers it anew.
 */
import type { Random } from '../../core/random.js';
import { reorderClauses } from './clause-order.js';
import { closings, commands, contractions, openings, requests, synonyms } from './wordings.js';

/** Up to `count` texts that differ from the question and from one another, at least one of them. */
export function rewordQuestion(question: string, count: number, random: Random): readonly string[] {
  const found = new Set<string>();
  for (let tries = 0; found.size < count && tries < triesPerText * count; tries++) {
    const reworded = rewordOnce(question, random);
    if (reworded !== question) found.add(reworded);
  }
  return found.size === 0 ? [openings[0]! + question] : [...found];
}

const triesPerText = 12;
/** In characters. Nobody writes longer questions word by word; they only get another opening. */
const longestReworded = 8000;

type Rule = (prose: string, random: Random) => string;

/** In the order in which they are applied; each to about half of the texts. */
const everywhere: readonly Rule[] = [reorderClauses, exchangeWords, contract, punctuate];

function rewordOnce(question: string, random: Random): string {
  const chosen = everywhere.filter(() => random.next() < 0.5 && question.length <= longestReworded);
  const parts = splitProse(question).map(({ text, isProse }) =>
    isProse ? chosen.reduce((prose, rule) => rule(prose, random), text) : text,
  );
  const whole = parts.join('');
  return close(random.next() < 0.6 ? open(whole, random) : whole, question, random);
}

interface Part {
  readonly text: string;
  readonly isProse: boolean;
}

/** Fenced and quoted code, comments, quotations; and lines that are indented, end as statements do or begin as in a shell. */
const fixed =
  /```[\s\S]*?(?:```|(?![\s\S]))|`[^`\n]*`|\/\*[\s\S]*?(?:\*\/|(?![\s\S]))|"[^"\n]*"|^(?:[ \t]{2,}| ?\*|\t|>>>|#|\/\/|@|def |class |import |from \w+ import )[^\n]*$|^[^\n]*[{};]$/gm;

/** Together the parts are the text. */
export function splitProse(text: string): readonly Part[] {
  const parts: Part[] = [];
  let end = 0;
  for (const { 0: code, index } of text.matchAll(fixed)) {
    parts.push({ text: text.slice(end, index), isProse: true }, { text: code, isProse: false });
    end = index + code.length;
  }
  return [...parts, { text: text.slice(end), isProse: true }].filter((part) => part.text !== '');
}

const draw = <Item>(items: readonly Item[], random: Random): Item => items[random.nextInteger(items.length)]!;

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
const small = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1);

const politeness = /^(?:please,? |(?:can|could|would|will) you (?:please )?)/i;
const command = new RegExp(`^(?:${commands.join('|')})\\b`, 'i');

/** Another way to begin, in place of the polite one where there is one. */
function open(text: string, random: Random): string {
  const bare = text.replace(politeness, '');
  if (!command.test(bare) || random.next() < 0.3) {
    return text === bare ? draw(openings, random) + text : capital(bare);
  }
  const request = draw(requests, random);
  const asked = request + small(bare);
  return /^(?:could|can|would) /i.test(request) ? asked.replace(/^([^.?!\n]*)\.(?=\s|$)/, '$1?') : asked;
}

/** Thanks stand behind prose; behind code they would be part of it. */
function close(text: string, question: string, random: Random): string {
  const last = splitProse(question).at(-1);
  return last?.isProse === true && /[.?!]$/.test(text) && random.next() < 0.25
    ? text + draw(closings, random)
    : text;
}

const escaped = (words: string): string => words.replace(/'/g, "['’]").replace(/ /g, '\\s+');

const withCaseOf = (model: string, word: string): string => (/^\p{Lu}/u.test(model) ? capital(word) : word);

interface Exchange {
  readonly pattern: RegExp;
  readonly words: readonly string[];
}

const exchanges: readonly Exchange[] = synonyms.map((words) => ({
  pattern: new RegExp(`\\b(?:(an?) )?(${words.map(escaped).join('|')})\\b(?!-| out\\b)`, 'gi'),
  words,
}));

/** One word of each row for another, with the article that it takes. */
function exchangeWords(prose: string, random: Random): string {
  return exchanges.reduce((text, { pattern, words }) => {
    const chosen = draw(words, random);
    return text.replace(pattern, (whole: string, article: string | undefined, word: string) => {
      if (word.toLowerCase() === chosen) return whole;
      const other = withCaseOf(word, chosen);
      return article === undefined
        ? other
        : `${article.charAt(0)}${/^[aeiou]/i.test(chosen) ? 'n' : ''} ${other}`;
    });
  }, prose);
}

/** All contractions of the text are written out, or all that it could have are made. */
function contract(prose: string, random: Random): string {
  const isShort = random.next() < 0.5;
  return contractions.reduce((text, [long, short]) => {
    const [from, to] = isShort ? [long, short] : [short, long];
    // At the end of a clause nobody contracts: "what it is."
    return text.replace(new RegExp(`\\b${escaped(from)}(?=\\s+\\p{L})`, 'giu'), (word) =>
      withCaseOf(word, to),
    );
  }, prose);
}

const marks: readonly Rule[] = [
  (text) => text.replace(/[.?!]+(\s*)$/, '$1'),
  (text) => text.replace(/\.(\s*)$/, '!$1'),
  (text) => text.replace(/, and /g, ' and '),
  (text) => text.replace(/: /g, ' - '),
  (text) => text.replace(/\.\s+(?=\p{Lu})/gu, '.\n'),
  (text) => text.replace(/\? /g, '?\n'),
];

function punctuate(prose: string, random: Random): string {
  return draw(marks, random)(prose, random);
}
