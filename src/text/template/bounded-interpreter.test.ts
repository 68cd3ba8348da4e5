import { afterEach, describe, expect, it, vi } from 'vitest';
import { parseTemplate, runTemplate } from './template-program.js';

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

const doubling =
  '{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor %}';

describe('a template of a stranger', () => {
  it.each<readonly [string, string, RegExp]>([
    [
      'a range that fills the memory',
      '{% for i in range(1000000000000) %}{% endfor %}',
      /range\(\) of 1000000000000/,
    ],
    [
      'loops in loops',
      '{% set r = range(100000) %}{% for i in r %}{% for j in r %}x{% endfor %}{% endfor %}',
      /too many steps/,
    ],
    [
      'empty loops in loops',
      '{% set r = range(100000) %}{% for i in r %}{% for j in r %}{% endfor %}{% endfor %}',
      /too many steps/,
    ],
    [
      'a text that doubles',
      '{% set ns = namespace(x="ab") %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}',
      /a text of \d+ characters/,
    ],
    [
      'an output beyond all bounds',
      '{% for i in range(100000) %}{{ long }}{% endfor %}',
      /a text of \d+ characters|too much text/,
    ],
    ['a filter that replaces much by much', '{{ huge | replace("a", long) }}', /a text of \d+ characters/],
    ['a method that replaces much by much', '{{ huge.replace("a", long) }}', /a text of \d+ characters/],
    [
      'the same under another name',
      '{% set f = huge["rep" ~ "lace"] %}{{ f("a", long) }}',
      /a text of \d+ characters/,
    ],
    ['a long separator', '{{ range(100000) | join(long) }}', /writes out more than/],
    ['a deep indent', '{{ long | indent(100000000) }}', /a text of \d+ characters/],
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
    ['a namespace that holds itself', '{% set n = namespace() %}{% set n.n = [n, n] %}{{ n }}', /./],
    ...['{{ n.l }}', '{{ n.l ~ "" }}', '{{ "" + n.l }}', '{{ n.l == "" }}', '{{ n.l | join }}'].map(
      (what) =>
        [`a list of lists that doubles, and ${what}`, doubling + what, /writes out more than/] as const,
    ),
    ['the same in an exception', `${doubling}{{ raise_exception(n.l) }}`, /it raised an exception/],
    ['the same, sorted', `${doubling}{{ [n.l, n.l] | sort }}`, /too much text/],
    ['JSON with wide indents', '{{ [[1]] | tojson(indent=100000000) }}', /writes out more than/],
    ['JSON with long separators', '{{ [1, 2] | tojson(separators=(huge, huge)) }}', /writes out more than/],
    [
      'a search that starts again at every letter',
      '{% set b = "b" ~ huge %}{{ b in huge ~ huge }}',
      /too much text/,
    ],
    ['the same by split', '{% set b = "b" ~ huge %}{{ (huge ~ huge).split(b) }}', /too much text/],
    [
      'long texts that are sorted',
      '{% set ns = namespace(l=[huge]) %}{% for i in range(12) %}{% set ns.l = ns.l + ns.l %}{% endfor %}{{ ns.l | sort | length }}',
      /too much text/,
    ],
    [
      'long texts of one length that are told apart',
      '{% set ns = namespace(l=[]) %}{% for i in range(1000, 4000) %}{% set ns.l = ns.l + [huge[:16400] ~ i] %}{% endfor %}{{ ns.l | unique | length }}',
      /too much text/,
    ],
    [
      'texts that are kept',
      '{% set ns = namespace(l=[]) %}{% for i in range(2000) %}{% set ns.l = [ns.l, huge | upper] %}{% endfor %}',
      /too much text/,
    ],
    [
      'numbers that are kept',
      '{% set ns = namespace(l=[]) %}{% for i in range(2000) %}{% set ns.l = [ns.l, range(100000)] %}{% endfor %}',
      /too much text/,
    ],
    [
      'a long macro that is defined again and again',
      `{% for i in range(100000) %}{% macro m() %}${'{{ 1 }}'.repeat(20_000)}{% endmacro %}{% endfor %}`,
      /too many steps/,
    ],
    ['pairs of long texts', '{{ namespace([huge ~ huge]) }}', /too much text/],
    ['a long date', '{{ strftime_now(huge) }}', /of up to 1000 characters/],
    ['a filter that is not known', '{{ 1 | constructor }}', /the filter constructor, which is not supported/],
  ])('is stopped: %s', (_, source, message) => {
    const start = process.cpuUsage();
    const variables = { long: 'a'.repeat(1000), huge: 'a'.repeat(1_000_000) };
    expect(() => render(source, variables)).toThrow(message);
    const { user, system } = process.cpuUsage(start);
    expect((user + system) / 1000).toBeLessThan(4000);
  });

  it('is not even parsed where the lexer would take for ever', () => {
    expect(() => parseTemplate(' '.repeat(100_000))).toThrow(
      'more than 1000 blanks in a row, at character 1',
    );
    expect(() => parseTemplate(`${' '.repeat(999)}x`.repeat(250))).toThrow('too many blanks in long runs');
    expect(() => parseTemplate('x'.repeat(300_000))).toThrow(
      'has 300000 characters; at most 262144 are read',
    );
  });
});

describe('time', () => {
  /** Clocks that advance by this many milliseconds at each reading. */
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
    expect(() => render(source)).toThrow('it took more than 3 seconds');
  });

  it.each([
    ['waiting for a busy CPU', { wall: 1000, cpu: 1 }],
    ['the CPU time of other threads', { wall: 1, cpu: 1000 }],
  ])('does not count %s', (_, steps) => {
    replaceClocks(steps);
    const source = '{% for i in range(2000) %}x{% endfor %}';
    expect(render(source)).toBe('x'.repeat(2000));
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
    ['{{ [] | first }}', ''],
    ['{% set n = namespace(a=1) %}{{ n.a }}{{ ["b", "a"] | sort | join }}', '1ab'],
    ['{% set f = text.upper %}{{ f() }}{{ text["lower"]() }}{{ text[0] }}{{ text[1:] }}', 'AAAaaaaaa'],
    ['{{ [{"a": "x"}, {"a": "y"}] | selectattr("a", "equalto", "y") | map(attribute="a") | join }}', 'y'],
    ['{{ {"a": 1}.get("b", 2) }}{{ {"a": 1}.items() | list | length }}', '21'],
    ['{{ "a b".split() | length }}{{ "aXb".split("X", 1)[1] }}{{ "aab".replace("a", "c", 1) }}', '2bcab'],
    ['{% for k, v in {"a": 1} | items %}{{ k ~ v }}{% endfor %}', 'a1'],
    ['{% for m in [1, 2, 3] if m != 2 %}{{ loop.index }}{{ m }}{% endfor %}', '1123'],
    ['{% macro m(x) %}{{ caller(x) }}{% endmacro %}{% call(x) m(1) %}{{ x }}{% endcall %}', '1'],
    ['{% macro m(x, y=2) %}{{ x }}{{ y }}{% endmacro %}{{ m(1) }}{{ m(*[3, 4]) }}', '1234'],
    ['{% for part in "a</think>b".split("</think>") %}[{{ part }}]{% endfor %}', '[a][b]'],
  ])('%j', (source, expected) => {
    expect(render(source, { text: 'aaa', long: 'a'.repeat(1000) })).toBe(expected);
  });

  it('is possible with a text that grows piece by piece', () => {
    const grow =
      '{% set n = namespace(t="") %}{% for i in range(2000) %}{% set n.t = n.t ~ part %}{% endfor %}';
    expect(render(`${grow}{{ n.t }}`, { part: 'word '.repeat(50) })).toHaveLength(500_000);
  });

  it('is possible with a long conversation', () => {
    const content = 'word '.repeat(100_000);
    expect(render('{{ content | trim }}{{ content.strip() }}', { content })).toHaveLength(999_998);
  });
});
