/**
 * Chat templates that are written to grow: values that double, hold themselves or share their parts, then something that
 * reads, writes or compares them as a whole. Each must end soon, in little memory, and write little.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Random } from '../../../src/core/random.js';
import { createRandom } from '../../../src/core/random.js';
import { loadChatTemplate, renderChat } from '../../../src/text/template/chat-template.js';
import { pick } from '../byte-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';

const longestOutput = 2_000_000;

const texts = ['n.t', 'messages[0].content', '"ab"', 'n.t[:9]', '(n.t ~ "b")', 'n.t | upper'];
const lists = [
  ...['n.l', 'n.l', 'n.l', 'n.l'], // most often the list that grows
  ...['[n.l]', 'range(9)', 'n.l[:5]', 'messages', 'n.t.split("a")', '(n.l, n.t)'],
];
const objects = ['n.o', 'n', 'loop', 'messages[0]', '{"a": n.o}'];
const numbers = ['0', '2', '-1', '9', '1000', '100000', '100000000', '9007199254740992'];

/** What makes a value larger, to be repeated. */
function writeGrowth(random: Random): string {
  const text = pick(random, texts);
  return pick(random, [
    ...Array.from({ length: 4 }, () => '{% set n.l = [n.l, n.l] %}'),
    '{% set n.l = n.l + n.l %}',
    '{% set n.l = [n.l, n.l | reverse | first] %}',
    `{% set n.l = [n.l, ${text}] %}`,
    `{% set n.l = n.l + [${text} ~ i] %}`,
    `{% set n.l = [n.l, range(${pick(random, numbers)})] %}`,
    '{% set n.l = [n.l, loop] %}',
    '{% set n.t = n.t ~ n.t %}',
    '{% set n.t = n.t + n.t %}',
    `{% set n.t = n.t | replace("a", ${text}) %}`,
    `{% set n.t = ${pick(random, lists)} | join(n.t) %}`,
    '{% set n.t = n.l ~ n.t %}',
    '{% set n.t = n.t | indent(9, first=true) %}',
    '{% set n.o = {"a": n.o, "b": n.o} %}',
    '{% set n.o = namespace(a=n.o, b=n.l) %}',
    '{% set n.n = [n, n] %}',
  ]);
}

/** An expression that takes a value as a whole. */
function writeSink(random: Random): string {
  const [text, other] = [pick(random, texts), pick(random, texts)];
  const list = pick(random, lists);
  const value = pick(random, [text, list, list, pick(random, objects)]);
  const number = pick(random, numbers);
  if (random.nextInteger(3) === 0) return value;
  return pick(random, [
    ...[`${value} ~ ${text}`, `${value} ~ ${text}`, `${text} + ${value}`, `${value} == ${text}`],
    ...[`${text} in ${value}`, `${text} not in (${other} ~ ${other})`, `${value} | tojson`],
    ...[`${value} | tojson(indent=${number})`, `${value} | tojson(separators=(${text}, ${other}))`],
    ...[`${value} | string`, `${list} | join`, `${list} | join(${text})`, `${list} | sort | length`],
    ...[`${list} | unique | length`, `${list} | reverse | first`, `${value} | items | length`],
    ...[`${list} | map(attribute="a") | join`, `${list} | selectattr("role", "equalto", "user") | list`],
    ...[
      `${text} | indent(${number})`,
      `(${text}).replace("", ${other})`,
      `${text} | replace(${other}, ${text})`,
    ],
    ...[`(${text}).split(${other}) | length`, `(${text}).split() | length`, `(${text}).startswith(${list})`],
    ...[`(${text}) is upper`, `(${text})[${number}:]`, `${value} | length`, `namespace(${value})`],
    ...[`raise_exception(${value})`, `strftime_now(${text})`, `dict(${value})`, `m(${value})`],
    ...[`${value} | dictsort | length`, `(${value}).get(${text})`, `{${text}: ${value}}`],
  ]);
}

function writeStatement(random: Random, depth: number): string {
  const inside = (): string => (depth > 2 ? writeGrowth(random) : writeProgram(random, depth + 1));
  switch (random.nextInteger(10)) {
    case 0:
    case 1:
    case 2:
    case 3: {
      const count = pick(random, [12, 24, 60, 60, 60, 5000]);
      return `{% for i in range(${count}) %}${writeGrowth(random)}${pick(random, ['', '', inside()])}{% endfor %}`;
    }
    case 4:
      return `{% for x in ${pick(random, lists)} %}${inside()}{% endfor %}`;
    case 5:
      return `{% macro m(x) %}${inside()}{{ ${pick(random, ['x', 'm(x)', 'm([x, x])'])} }}{% endmacro %}`;
    case 6:
      return `{% set n.t %}${inside()}{% endset %}{% filter upper %}{{ ${writeSink(random)} }}{% endfilter %}`;
    case 7:
      return pick(random, [' ', '\n', ' \t'])
        .repeat(pick(random, [1, 30, 499, 999]))
        .concat('x')
        .repeat(pick(random, [1, 20, 250]))
        .slice(0, 260_000);
    default:
      return `{{ ${writeSink(random)} }}`;
  }
}

function writeProgram(random: Random, depth: number): string {
  const count = 1 + random.nextInteger(depth === 0 ? 4 : 2);
  return Array.from({ length: count }, () => writeStatement(random, depth)).join('');
}

export function writeTemplate(random: Random): string {
  const start = `{% set n = namespace(l=[1], t="ab", o={}) %}`;
  return `${start}${writeProgram(random, 0)}{{ ${writeSink(random)} }}`;
}

export const templateProgram: FuzzKind = {
  name: 'template-program',
  boundedRuns: 100,
  open: (folder) => async (seed) => {
    const random = createRandom(seed, 'template-program');
    writeFileSync(join(folder, 'chat_template.jinja'), writeTemplate(random));
    const loaded = (await loadChatTemplate(folder, { date: '2026-01-02' }))!;
    const content = 'ab'.repeat(pick(random, [1, 100, 40_000]));
    const text = renderChat(loaded, [{ role: 'user', content }]);
    ensure(text.length <= longestOutput, `a text of ${text.length} characters`);
  },
};
