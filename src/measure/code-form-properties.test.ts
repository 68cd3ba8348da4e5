/** Programs made at random, written in any layout, cut anywhere. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normaliseCode } from './code-form.js';
import { extractCode } from './code-text.js';

/** A statement as tokens, with the block it heads. */
interface Statement {
  readonly tokens: readonly string[];
  readonly body: readonly Statement[];
}

/** What decides where a rendering puts its noise. */
interface Layout {
  readonly indentation: string;
  /** Read round and round; each number decides one choice. */
  readonly noise: readonly number[];
}

const name = fc.constantFrom('a', 'b', 'total', 'numbers', 'is_prime', 'lambda_', 'f');
const number = fc.constantFrom('0', '1', '2.5', '1e-9', '0xFF', '10_000');
const text = fc.constantFrom('"x"', '"two words"', '"# no comment"', '"a,)"', '"// neither"');
const operator = fc.constantFrom(
  '+',
  '-',
  '*',
  '/',
  '//',
  '**',
  '%',
  '==',
  '!=',
  '<',
  '<=',
  '>>',
  'and',
  'is',
);

const { expression } = fc.letrec<{ expression: string[]; list: string[] }>((tie) => ({
  expression: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.oneof(name, number, text).map((operand) => [operand]),
    fc
      .tuple(tie('expression'), operator, tie('expression'))
      .map(([left, sign, right]) => [...left, sign, ...right]),
    fc.tuple(name, tie('list')).map(([called, list]) => [called, '(', ...list, ')']),
    fc
      .tuple(name, tie('expression'))
      .map(([indexed, index]) => [indexed, '[', ...index, ':', ':', '-', '1', ']']),
    tie('list').map((list) => ['[', ...list, ']']),
    tie('expression').map((only) => ['(', ...only, ',', ')']),
  ),
  list: fc.tuple(tie('expression'), tie('expression')).map(([first, second]) => [...first, ',', ...second]),
}));

const simple = fc.oneof(
  fc
    .tuple(name, fc.constantFrom('=', '+=', '//='), expression)
    .map(([left, sign, right]) => [left, sign, ...right]),
  expression.map((value) => ['return', ...value]),
);
const header = fc.oneof(
  expression.map((condition) => ['if', ...condition, ':']),
  fc.tuple(name, expression).map(([item, items]) => ['for', item, 'in', ...items, ':']),
  fc.tuple(name, name).map(([called, parameter]) => ['def', called, '(', parameter, ')', ':']),
);
const { program } = fc.letrec<{ program: Statement[]; statement: Statement }>((tie) => ({
  statement: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    simple.map((tokens) => ({ tokens, body: [] })),
    fc.record({ tokens: header, body: tie('program') }),
  ),
  program: fc.array(tie('statement'), { minLength: 1, maxLength: 4 }),
}));
const layout = fc.record({
  indentation: fc.constantFrom(' ', '  ', '    ', '\t'),
  noise: fc.array(fc.nat(99), { minLength: 1, maxLength: 40 }),
});

/** Plain layout without one, and with one any that means the same. */
function render(statements: readonly Statement[], style?: Layout): string {
  const { indentation, noise } = style ?? { indentation: '    ', noise: [99] };
  let at = 0;
  const choose = <Choice>(usual: Choice, ...others: Choice[]): Choice =>
    others[noise[at++ % noise.length]! % 20] ?? usual;
  const spell = (token: string) => (token.startsWith('"') ? choose(token, `'${token.slice(1, -1)}'`) : token);
  const lines: string[] = [];
  const write = (block: readonly Statement[], level: number) => {
    const margin = indentation.repeat(level);
    for (const { tokens, body } of block) {
      lines.push(...choose<string[]>([], [''], ['   '], [`${margin}# a note: it's "here"`], [`  # ) or ]`]));
      let depth = 0;
      let line = margin;
      for (const [index, token] of tokens.entries()) {
        const closes = [')', ']'].includes(token);
        if (['(', '['].includes(token)) depth++;
        if (closes && tokens[index - 1] !== ',' && !isGroup(tokens, index)) line += choose('', ',', ' , ');
        if (closes) depth--;
        const gap =
          depth > 0 ? choose(' ', '  ', '\n', '\n\n      ', ' # inside\n') : choose(' ', '   ', ' \\\n   ');
        line += spell(token) + (index === tokens.length - 1 ? '' : gap);
      }
      const end = body.length === 0 ? choose('', ';', ' ; ') : '';
      lines.push(line + end + choose('', '  ', '  # why', '#'));
      if (tokens[0] === 'def')
        lines.push(...choose<string[]>([], [`${margin}${indentation}"""Says\nwhat."""`]));
      write(body, level + 1);
    }
  };
  write(statements, 0);
  return lines.join('\n');
}

/** Whether the bracket that closes here groups or subscripts: a comma would make a tuple. */
function isGroup(tokens: readonly string[], closing: number): boolean {
  let depth = 0;
  let opening = closing;
  for (; opening >= 0; opening--) {
    if ([')', ']'].includes(tokens[opening]!)) depth++;
    if (['(', '['].includes(tokens[opening]!) && --depth === 0) break;
  }
  const before = tokens[opening - 1] ?? '';
  const called = /^\w+$/u.test(before) && !['return', 'in', 'if', 'and', 'is'].includes(before);
  return tokens[opening] === '(' ? !called : called;
}

const same = (left: string, right: string) => {
  expect(normaliseCode(right)).toBe(normaliseCode(left));
};
const different = (left: string, right: string) => {
  expect(normaliseCode(right)).not.toBe(normaliseCode(left));
};

describe('normaliseCode, of any program', () => {
  it('is its own form', () => {
    fc.assert(
      fc.property(program, layout, (statements, style) => {
        const form = normaliseCode(render(statements, style));
        expect(normaliseCode(form)).toBe(form);
      }),
    );
  });

  it('is its own form wherever an answer is cut', () => {
    fc.assert(
      fc.property(program, layout, fc.nat(), (statements, style, cut) => {
        const code = render(statements, style);
        const form = normaliseCode(code.slice(0, cut % (code.length + 1)));
        expect(normaliseCode(form)).toBe(form);
      }),
    );
  });

  it('does not see layout', () => {
    fc.assert(
      fc.property(program, layout, (statements, style) => {
        same(render(statements), render(statements, style));
      }),
    );
  });

  it('sees every token', () => {
    const others = ['other', '7', '"another"', '@', ''];
    fc.assert(
      fc.property(
        program,
        layout,
        fc.nat(),
        fc.constantFrom(...others),
        (statements, style, place, other) => {
          const index = place % statements.length;
          const { tokens, body } = statements[index]!;
          const changed = tokens.with(place % tokens.length, other).filter((token) => token !== '');
          different(render(statements), render(statements.with(index, { tokens: changed, body }), style));
        },
      ),
    );
  });

  it('sees the order of statements and their nesting', () => {
    fc.assert(
      fc.property(program, simple, layout, (statements, tokens, style) => {
        const added = { tokens: [...tokens, '-', 'unique'], body: [] };
        const form = normaliseCode(render([{ tokens: ['if', 'a', ':'], body: [...statements, added] }]));
        for (const moved of [
          [{ tokens: ['if', 'a', ':'], body: statements }, added],
          [{ tokens: ['if', 'a', ':'], body: [added, ...statements] }],
        ]) {
          expect(normaliseCode(render(moved, style))).not.toBe(form);
        }
      }),
    );
  });

  it('takes any text', () => {
    const pieces = fc.constantFrom(
      '"""',
      "'",
      '"',
      '`',
      '${',
      '(',
      ']',
      '{',
      '}',
      ';',
      ',',
      '\\',
      '\n',
      '\t',
      '#',
      '//',
      '/*',
      'if',
      ':',
      'x',
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(pieces, fc.string({ unit: 'binary' }))), (parts) => {
        const code = parts.join('');
        expect(typeof normaliseCode(code)).toBe('string');
        extractCode(code);
      }),
    );
  });
});
