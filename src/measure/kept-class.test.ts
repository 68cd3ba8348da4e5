import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { TaskKind } from './kept-class.js';
import {
  classifyAnswer,
  isKept,
  keepRules,
  keptClasses,
  minSimilarity,
  satisfies,
  taskOf,
} from './kept-class.js';

/** One token a character: enough for the relations between ids and text. */
const answer = (text: string) => ({
  text,
  tokenIds: Array.from(text, (letter) => letter.codePointAt(0)!),
});
const classify = (clean: string, other: string, task: TaskKind) =>
  classifyAnswer({ clean: answer(clean), other: answer(other), task });
const range = (length: number) => Array.from({ length }, (_, index) => index);

describe('classifyAnswer', () => {
  it('is identical for the same tokens, whatever the task', () => {
    for (const task of ['number', 'code', 'none'] as const) {
      expect(classify('same', 'same', task)).toEqual({
        keptClass: 'identical',
        similarity: 1,
        firstDifference: 4,
      });
    }
    expect(classify('', '', 'none')).toEqual({ keptClass: 'identical', similarity: 1, firstDifference: 0 });
  });

  it('goes by tokens: the same text in other tokens is not identical', () => {
    const clean = { text: 'abc', tokenIds: [1, 2] };
    const other = { text: 'abc', tokenIds: [3] };
    expect(classifyAnswer({ clean, other, task: 'none' })).toEqual({
      keptClass: 'different',
      similarity: 0,
      firstDifference: 0,
    });
  });

  it('is not identical where one answer ends earlier', () => {
    expect(classify('0123456789', '012345678', 'none')).toEqual({
      keptClass: 'similar',
      similarity: 0.9,
      firstDifference: 9,
    });
  });

  it('reads the number of a solution', () => {
    const clean = 'She sells 9 eggs at $2.\n#### 18';
    expect(classify(clean, 'That is 9 x 2 dollars, so 18.', 'number').keptClass).toBe('task');
    expect(classify(clean, 'She sells 9 eggs at $2.\n#### 18.00', 'number').keptClass).toBe('task');
    expect(classify(clean, 'That is 9 x 2 dollars, so 19.', 'number').keptClass).toBe('different');
    // Nearly the same words, another number.
    expect(classify(clean, 'She sells 9 eggs at $2.\n#### 19', 'number').keptClass).toBe('similar');
    expect(classify('no number', 'none either', 'number').keptClass).toBe('different');
  });

  it('reads the code of a solution', () => {
    const clean =
      '```python\ndef total(numbers):\n    """Adds."""\n    return sum(numbers)\n```\nIt uses `sum`.';
    const rewritten =
      'Here you are:\n```\ndef total( numbers ):\n  # all of them\n  return sum(numbers)\n```';
    expect(classify(clean, rewritten, 'code').keptClass).toBe('task');
    expect(classify(clean, rewritten, 'none').keptClass).toBe('different');
    expect(classify(clean, rewritten.replace('sum', 'max'), 'code').keptClass).toBe('different');
    expect(classify(clean, 'You could add them up.', 'code').keptClass).toBe('different');
  });

  it('reads bare bodies', () => {
    const clean = '     if not l:\n        return 0\n    return max(l)\n';
    expect(classify(clean, '```python\nif not l:\n    return 0\nreturn max(l)\n```', 'code').keptClass).toBe(
      'task',
    );
    expect(
      classify(clean, '```python\nif not l:\n    return 0\n    return max(l)\n```', 'code').keptClass,
    ).toBe('different');
  });

  it('compares cut code as a whole: a beginning is not the same result', () => {
    const whole = '```python\ndef f(x):\n    y = x + 1\n    return y * 2';
    for (let length = 1; length < whole.length; length++) {
      const cut = whole.slice(0, length);
      expect(classify(whole, cut, 'code').keptClass, cut).not.toBe('task');
    }
    // Both cut at the same place.
    expect(classify(whole, whole.replace('x):', 'x):  # a comment'), 'code').keptClass).toBe('task');
    expect(classify(whole, whole.replace('* 2', '* 20'), 'code').keptClass).not.toBe('task');
  });

  it('has no result in code that does nothing yet', () => {
    const head = '```python\ndef f(x):\n    """Twice x."""\n';
    expect(classify(head, head.replace('Twice', 'Two times the given'), 'code').keptClass).toBe('different');
    expect(classify('```\n# one\n```', '```\n# two and more\n```', 'code').keptClass).toBe('different');
    const cutInside = [
      '```python\ndef f(x):\n    """Twice',
      '```python\ndef f(x):\n    """Something else',
    ] as const;
    expect(classify(...cutInside, 'code').keptClass).toBe('different');
  });

  it('calls the same result `task` even where the tokens are similar too', () => {
    const clean = `${'a '.repeat(30)}#### 18`;
    const relation = classify(clean, clean.replace('18', '18.0'), 'number');
    expect(relation.keptClass).toBe('task');
    expect(relation.similarity).toBeGreaterThan(0.95);
  });

  it('is similar from 0.9 on', () => {
    const clean = { text: '', tokenIds: range(20) };
    const changed = (edits: number) => range(20).map((id) => (id < edits ? 100 + id : id));
    const relate = (edits: number) =>
      classifyAnswer({ clean, other: { text: '', tokenIds: changed(edits) }, task: 'none' });
    expect(relate(1)).toEqual({ keptClass: 'similar', similarity: 0.95, firstDifference: 0 });
    expect(relate(2)).toEqual({ keptClass: 'similar', similarity: minSimilarity, firstDifference: 0 });
    expect(relate(3)).toEqual({ keptClass: 'different', similarity: 0.85, firstDifference: 0 });
  });

  it('is symmetric', () => {
    const texts = fc.constantFrom(
      '#### 18',
      'so 18',
      'so 19',
      'return 18',
      '    return  18',
      '```\nreturn 18',
      'none',
      '',
    );
    fc.assert(
      fc.property(texts, texts, fc.constantFrom('number', 'code', 'none'), (left, right, task) => {
        expect(classify(left, right, task)).toEqual(classify(right, left, task));
      }),
    );
  });
});

describe('isKept', () => {
  it('is every class but the last', () => {
    expect(keptClasses.filter(isKept)).toEqual(['identical', 'task', 'similar']);
  });
});

describe('satisfies', () => {
  it.each([
    ['identical', 1, ['identical', 'task', 'similar', 'distribution']],
    ['task', 0.95, ['task', 'similar', 'distribution']],
    ['task', 0.3, ['task', 'distribution']],
    ['similar', 0.95, ['similar', 'distribution']],
    ['similar', 0.9, ['similar', 'distribution']],
    ['different', 0.3, ['distribution']],
  ] as const)('of %s with similarity %f: %j', (keptClass, similarity, expected) => {
    expect(keepRules.filter((rule) => satisfies(rule, keptClass, similarity))).toEqual(expected);
  });

  it('agrees with the classes: what is kept satisfies a rule on the answer, what is not satisfies none', () => {
    const tokenIds = fc.array(fc.nat(2), { maxLength: 12 });
    fc.assert(
      fc.property(tokenIds, tokenIds, fc.constantFrom('number', 'none'), (left, right, task) => {
        const clean = { tokenIds: left, text: left.join(' ') };
        const other = { tokenIds: right, text: right.join(' ') };
        const { keptClass, similarity } = classifyAnswer({ clean, other, task });
        const rules = (['identical', 'task', 'similar'] as const).filter((rule) =>
          satisfies(rule, keptClass, similarity),
        );
        expect(rules.length > 0).toBe(isKept(keptClass));
        if (satisfies('identical', keptClass, similarity)) expect(rules).toHaveLength(3);
      }),
    );
  });
});

describe('taskOf', () => {
  const marked = { reference: '9 x 2 = <<9*2=18>>18\n#### 18' };

  it.each([
    ['a marked reference and a number', marked, 'That makes 18.', 'number'],
    ['a marked reference and no number', marked, 'That is hard to say.', 'none'],
    ['a marked reference and code with a number', marked, 'print(9 * 2)', 'number'],
    ['a marked reference and code without one', marked, 'print(total)', 'code'],
    ['code in a fence', { reference: null }, 'Sure:\n```python\nx = 1\n```', 'code'],
    ['a bare body', { reference: '    return max(l)\n' }, '     return max(l)\n', 'code'],
    ['prose', { reference: null }, 'Hawaii has 8 islands.', 'none'],
    ['prose with a reference that marks nothing', { reference: '18' }, 'It is 18.', 'none'],
    ['nothing', { reference: null }, '', 'none'],
  ] as const)('of %s', (_, prompt, cleanText, expected) => {
    expect(taskOf(prompt, cleanText)).toBe(expected);
  });
});
