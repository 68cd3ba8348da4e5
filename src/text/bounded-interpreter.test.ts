import { afterEach, describe, expect, it, vi } from 'vitest';
import { parseTemplate } from './bounded-interpreter.js';
import { runTemplate } from './template-environment.js';

const render = (source: string, variables: Readonly<Record<string, unknown>> = {}): string =>
  runTemplate(parseTemplate(source), variables, '2024-07-26');

describe('a text that is no template', () => {
  it.each([
    ['{{', 'it ends where more was expected'],
    ['{% set x =', 'it ends where more was expected'],
    [`{{ ${'('.repeat(50_000)}1 }}`, 'it nests too deeply'],
  ])('%.20s', (source, sentence) => {
    expect(() => parseTemplate(source)).toThrow(sentence);
  });
});

describe('a template of a stranger', () => {
  it.each([
    [
      'a range that fills the memory',
      '{% for i in range(1000000000000) %}{% endfor %}',
      /range\(\) of 1000000000000/,
    ],
    [
      'loops in loops',
      '{% set r = range(100000) %}{% for i in r %}{% for j in r %}x{% endfor %}{% endfor %}',
      /steps|seconds/,
    ],
    [
      'a text that doubles',
      '{% set ns = namespace(x="ab") %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}',
      /a text of \d+ characters/,
    ],
    [
      'an output beyond all bounds',
      '{% for i in range(100000) %}{{ long }}{% endfor %}',
      /a text of \d+ characters|seconds/,
    ],
    ['a filter that replaces much by much', '{{ long | replace("a", long) }}', /inserts 1000 characters/],
    ['a method that replaces much by much', '{{ long.replace("a", long) }}', /inserts 1000 characters/],
    [
      'the same under another name',
      '{% set f = long["rep" ~ "lace"] %}{{ f("a", long) }}',
      /inserts 1000 characters/,
    ],
    ['a long separator', '{{ range(100000) | join(long) }}', /inserts 1000 characters/],
    ['a deep indent', '{{ long | indent(100000000) }}', /inserts 100000000 characters/],
    [
      'one text many times in a list',
      '{% set ns = namespace(l=[long]) %}{% for i in range(12) %}{% set ns.l = ns.l + ns.l %}{% endfor %}{{ ns.l | tojson }}',
      /writes out more than/,
    ],
    [
      'a list that doubles',
      '{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}',
      /a list of \d+ items/,
    ],
    ['a macro that calls itself', '{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}', /./],
  ])('is stopped: %s', (_, source, message) => {
    expect(() => render(source, { long: 'a'.repeat(1000) })).toThrow(message);
  });

  it('is not even parsed where the lexer would take for ever', () => {
    expect(() => parseTemplate(' '.repeat(100_000))).toThrow(
      'more than 1000 blanks in a row, at character 1',
    );
    expect(() => parseTemplate('x'.repeat(300_000))).toThrow(
      'has 300000 characters; at most 262144 are read',
    );
  });
});

describe('time', () => {
  /** Clocks that move on by so many milliseconds whenever they are read. */
  function replaceClocks(steps: { readonly wall: number; readonly cpu: number }): void {
    const read = { wall: 0, cpu: 0 };
    vi.spyOn(performance, 'now').mockImplementation(() => (read.wall += steps.wall));
    vi.spyOn(process, 'cpuUsage').mockImplementation((since = { user: 0, system: 0 }) => {
      read.cpu += 1000 * steps.cpu;
      return { user: read.cpu - since.user, system: 0 };
    });
  }
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it.each(['x', ''])('ends loops in loops over %j', (body) => {
    replaceClocks({ wall: 500, cpu: 500 });
    const source = `{% set r = range(100000) %}{% for i in r %}{% for j in r %}${body}{% endfor %}{% endfor %}`;
    expect(() => render(source)).toThrow('it took more than 2 seconds');
  });

  it('that a template waits for a busy CPU does not count', () => {
    replaceClocks({ wall: 1000, cpu: 1 });
    expect(render('{% for i in range(10) %}x{% endfor %}')).toBe('xxxxxxxxxx');
  });
});

describe('what honest templates do', () => {
  it.each([
    ['{{ text | replace("a", "b") }}', 'bbb'],
    ['{{ text.replace("a", "") | trim }}', ''],
    ['{{ ["x", "y"] | join(", ") }}', 'x, y'],
    ['{{ {"a": [1, "two"]} | tojson }}', '{"a": [1, "two"]}'],
    ['{{ "l1\nl2" | indent(4) }}', 'l1\n    l2'],
    ['{{ missing | default(long) | length }}', '1000'],
    ['{% for part in "a</think>b".split("</think>") %}[{{ part }}]{% endfor %}', '[a][b]'],
  ])('%j', (source, expected) => {
    expect(render(source, { text: 'aaa', long: 'a'.repeat(1000) })).toBe(expected);
  });

  it('is possible with a long conversation', () => {
    const content = 'word '.repeat(100_000);
    expect(render('{{ content | trim }}{{ content.strip() }}', { content })).toHaveLength(999_998);
  });
});
