import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parsePrometheusText, type Sample } from './counters.js';

const parseOne = (line: string): Sample | undefined => parsePrometheusText(line)[0];

describe('parsePrometheusText', () => {
  it.each([
    ['up 1', 'up', {}, 1],
    ['up{} 1.5e3 1790000000000', 'up', {}, 1500],
    ['a:b_c{x="1",y="two",} -0.25', 'a:b_c', { x: '1', y: 'two' }, -0.25],
    ['a{x = "q\\"b\\\\s\\nl\\t"} +Inf', 'a', { x: 'q"b\\s\nl\\t' }, Infinity],
    ['a {x="}, {"} -Inf', 'a', { x: '}, {' }, -Infinity],
    ['a_total{x="1"} 7 # {trace="t"} 0.5 1.5', 'a_total', { x: '1' }, 7],
    ['a{__proto__="1"} NaN', 'a', { ['__proto__']: '1' }, Number.NaN],
  ])('reads %s', (line, name, labels, value) => {
    const sample = parseOne(line);
    expect(sample?.name).toBe(name);
    expect([...sample!.labels]).toEqual(Object.entries(labels));
    expect(sample?.value).toBe(value);
  });

  it.each([
    'up',
    'up x',
    'up 1 2 3',
    'up 0x10',
    '1up 1',
    'a{x="1} 1',
    'a{x=1} 1',
    'a{x="1" y="2"} 1',
    'a-b 1',
    'a"1',
    '{"a.b"} 1',
  ])('passes over %s', (line) => {
    const samples = parsePrometheusText(`before 1\n${line}\r\nafter 2`);
    expect(samples.map(({ name }) => name)).toEqual(['before', 'after']);
  });

  it('reads no more samples than it may', () => {
    const samples = parsePrometheusText(`# TYPE a counter\n# HELP a x\n#\n${'a 1\n'.repeat(100_001)}`);
    expect(samples).toHaveLength(100_000);
  });

  it('reads back what is written by the rules', () => {
    const name = fc.stringMatching(/^[a-zA-Z_:][a-zA-Z0-9_:]{0,12}$/);
    const label = fc.stringMatching(/^[a-zA-Z_][a-zA-Z0-9_]{0,8}$/);
    const labels = fc.uniqueArray(fc.tuple(label, fc.string()), { selector: ([key]) => key, maxLength: 5 });
    const value = fc.oneof(fc.double(), fc.integer());
    const write = ([given, pairs, number]: readonly [string, [string, string][], number]): string => {
      const escape = (text: string): string =>
        text.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n');
      const shown = pairs.map(([key, text]) => `${key}="${escape(text)}"`).join(',');
      return `${given}${shown === '' ? '' : `{${shown}}`} ${String(number).replace('Infinity', 'Inf')}`;
    };
    fc.assert(
      fc.property(fc.array(fc.tuple(name, labels, value), { maxLength: 8 }), (given) => {
        const samples = parsePrometheusText(given.map(write).join('\n'));
        expect(samples.map((each) => [each.name, [...each.labels], each.value])).toEqual(
          given.map(([each, pairs, number]) => [each, pairs, Object.is(number, -0) ? 0 : number]),
        );
      }),
      { seed: 13 },
    );
  });

  it('never throws, and reads no comments', () => {
    const line = fc.oneof(
      fc.string(),
      fc.string().map((text) => `a{${text}} 1`),
    );
    fc.assert(
      fc.property(fc.array(line), (lines) => {
        const samples = parsePrometheusText(lines.join('\n'));
        const expected = lines
          .join('\n')
          .split(/\r?\n/)
          .map((each) => each.trim());
        expect(samples.length).toBeLessThanOrEqual(
          expected.filter((each) => each !== '' && !each.startsWith('#')).length,
        );
      }),
      { seed: 13 },
    );
  });
});
