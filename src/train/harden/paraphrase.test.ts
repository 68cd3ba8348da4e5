import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { reorderClauses, turnSentence } from './clause-order.js';
import { rewordQuestion, splitProse } from './paraphrase.js';

const reword = (question: string, count = 40, seed = 0): readonly string[] =>
  rewordQuestion(question, count, createRandom(seed, 'test'));

describe('rewordQuestion', () => {
  const question = 'If it is sunny, what is the biggest difference? Please explain it.';

  it('gives other texts, each once, the same for the same stream', () => {
    const texts = reword(question);
    expect(texts).toHaveLength(40);
    expect(new Set([...texts, question]).size).toBe(41);
    expect(reword(question)).toEqual(texts);
    expect(reword(question, 40, 1)).not.toEqual(texts);
  });

  it('knows openings, the order of clauses, synonyms, contractions, punctuation and thanks', () => {
    const texts = reword(question, 200);
    for (const sign of [
      ...[/^(Hi|Hello|Quick question)/, /if it is sunny\?/, /distinction/, /what's/i, /it[ .]*$/, /Thank/],
      /describe it/,
    ])
      expect(texts.some((text) => sign.test(text))).toBe(true);
  });

  it('asks for a command in other words, and makes a question of it where it is one', () => {
    const texts = reword('Write a poem about rain. It has two lines.', 120);
    expect(texts.some((text) => text.startsWith('Please write a poem about rain. '))).toBe(true);
    expect(texts.some((text) => text.startsWith('Could you write a poem about rain? It has'))).toBe(true);
    expect(texts.some((text) => text.startsWith('Could you write a poem about rain. '))).toBe(false);
  });

  it('takes politeness away where there is some', () => {
    expect(reword('Could you please compare two cars?', 60)).toContain('Compare two cars?');
  });

  it('leaves code, quotations and numbers as they are', () => {
    const code = '```python\ndef find(big):\n    return big  # do not create "it is"\n```';
    const asked = `Find the maximum of 3.75 and "do not find it". Use \`create()\`.\n\n${code}`;
    for (const text of reword(asked, 60)) {
      for (const part of ['3.75', '"do not find it"', '`create()`', code]) expect(text).toContain(part);
      expect(text.endsWith(code)).toBe(true);
    }
  });

  it('puts the article right', () => {
    const texts = reword('This is an important thing.', 60);
    expect(texts.some((text) => text.includes('a crucial thing'))).toBe(true);
    expect(texts.some((text) => /an crucial|a (essential|important)/.test(text))).toBe(false);
  });

  it('has something for every text, whatever it is', () => {
    for (const text of [
      '',
      'x',
      '\n\n',
      '????',
      '```',
      '数を数えてください。',
      '\ud800',
      '{"a": 1}',
      '$&$1',
    ]) {
      const [first] = reword(text, 3);
      expect(first).toBeDefined();
      expect(first).not.toBe(text);
    }
    expect(reword('$& costs $1.', 30).every((text) => text.includes('$& costs $1'))).toBe(true);
  });

  it('is soon done with what is long or strange', () => {
    for (const text of [' '.repeat(1e6), '.'.repeat(1e6), 'if '.repeat(3e5), `${'a '.repeat(3900)}if b`])
      expect(reword(text, 2).length).toBeGreaterThan(0);
  });
});

describe('splitProse', () => {
  it.each([
    ['Say `x` twice.', ['Say ', '`x`', ' twice.']],
    ['Go on:\n```js\nlet a = 1;\n\nunclosed', ['Go on:\n', '```js\nlet a = 1;\n\nunclosed']],
    [
      'Complete it.\n\ndef f():\n    pass\nThen run.',
      ['Complete it.\n\n', 'def f():', '\n', '    pass', '\nThen run.'],
    ],
    ['/* do\n not */ but do.', ['/* do\n not */', ' but do.']],
    ['int main() {\nStop.', ['int main() {', '\nStop.']],
  ])('%j', (text, parts) => {
    expect(splitProse(text).map((part) => part.text)).toEqual(parts);
  });
});

describe('turnSentence', () => {
  it.each([
    ['If it rains, who comes?', 'Who comes if it rains?'],
    ['The dog barks when Ann sleeps.', 'When Ann sleeps, the dog barks.'],
    ['Ann always sings when it rains.', 'When it rains, Ann always sings.'],
    ['Call the function again before it ends.', 'Before it ends, call the function again.'],
    // What is asked for is no condition, and half a clause is no main clause.
    ['Determine if it rains.', 'Determine if it rains.'],
    ['If it rains, and it is cold, go.', 'If it rains, and it is cold, go.'],
    ['It rains.', 'It rains.'],
  ])('%s', (sentence, turned) => {
    expect(turnSentence(sentence)).toBe(turned);
  });

  it('keeps blanks around paragraphs', () => {
    const text = '  Ann has 3 cats. How many?  \n\n  It rains.\n';
    const results = Array.from({ length: 12 }, (_, seed) => reorderClauses(text, createRandom(seed)));
    expect(new Set(results)).toEqual(new Set([text, '  How many? Ann has 3 cats.  \n\n  It rains.\n']));
  });
});
