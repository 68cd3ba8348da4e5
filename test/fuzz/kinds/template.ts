/** Chat templates: programs of strangers. Whatever they do, they end soon and write little. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Random } from '../../../src/core/random.js';
import { createRandom } from '../../../src/core/random.js';
import { packageRoot } from '../../../src/core/package-files.js';
import { loadChatTemplate, renderChat } from '../../../src/text/template/chat-template.js';
import { mutateBytes, pick } from '../byte-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';

const published = join(packageRoot, 'test/fixtures/chat');
const longestOutput = 2_000_000;

/** Expressions that grow, loop, or ask for what a template should not have. */
const expressions: readonly string[] = [
  ...[
    'messages',
    'messages[0]',
    'messages[0].content',
    'messages | length',
    'loop',
    'loop.index',
    'self',
    'x',
    'ns.x',
  ],
  ...[
    'range(9)',
    'range(100000)',
    'range(1e12)',
    'range(-1)',
    'range(0, 9, 0)',
    '"a" * 1000000',
    '"ab" ~ "cd"',
    '[1] * 9',
  ],
  ...[
    'x ~ x',
    'x | replace("a", "aaaaaaaaaa")',
    'x | join("abc")',
    'x | upper',
    'x | tojson',
    'x | list',
    'x | string',
  ],
  ...[
    'x.__class__',
    'x["constructor"]',
    'x.constructor.constructor("return process")()',
    'x["__proto__"]',
    'x.split("")',
  ],
  ...[
    'raise_exception("no")',
    'raise_exception(messages)',
    'strftime_now("%Y" * 9)',
    'strftime_now(1)',
    'namespace(x=1)',
  ],
  ...[
    '1 / 0',
    '0 % 0',
    '2 ** 99',
    '- 9',
    'not x',
    'x is defined',
    'x is number',
    '"\\ud800"',
    '{"a": x}',
    '[x, x, x]',
    'none',
  ],
  ...[
    'x | map(attribute="content")',
    'x | selectattr("role", "equalto", "user")',
    'x | indent(99)',
    'x | sort',
    'x | center(999)',
  ],
];
const conditions = ['true', 'false', 'x', 'messages', 'loop.first', 'x is string', '1 < 2', 'x in x'];

function writeTemplate(random: Random, depth: number): string {
  const count = 1 + random.nextInteger(4);
  return Array.from({ length: count }, () => writeStatement(random, depth)).join('');
}

function writeStatement(random: Random, depth: number): string {
  const value = (): string => pick(random, expressions);
  const inside = (): string => (depth > 3 ? 'y' : writeTemplate(random, depth + 1));
  switch (random.nextInteger(9)) {
    case 0:
      return `{% for x in ${value()} %}${inside()}{% endfor %}`;
    case 1:
      return `{% if ${pick(random, conditions)} %}${inside()}{% else %}${inside()}{% endif %}`;
    case 2:
      return `{% set x = ${value()} %}`;
    case 3:
      return `{% set ns = namespace(x="ab") %}{% for i in range(60) %}{% set ns.x = ${value()} ~ ns.x %}{% endfor %}`;
    case 4:
      return `{% macro m(x) %}${inside()}{{ m(x) }}{% endmacro %}{{ m(${value()}) }}`;
    case 5:
      return pick(random, [
        '{#',
        '{%',
        '{{',
        '%}',
        '{%- -%}',
        ' '.repeat(900),
        '{% endfor %}',
        '((((',
        '{{ "',
      ]);
    default:
      return `{{ ${value()} }}`;
  }
}

export const template: FuzzKind = {
  name: 'template',
  boundedRuns: 300,
  open(folder) {
    const sources = readdirSync(published).flatMap((name) => {
      const { template: source } = JSON.parse(readFileSync(join(published, name), 'utf8')) as {
        template?: unknown;
      };
      return typeof source === 'string' ? [source] : [];
    });
    return async (seed) => {
      const random = createRandom(seed, 'template');
      const source =
        random.nextInteger(2) === 0
          ? writeTemplate(random, 0)
          : mutateBytes(Buffer.from(pick(random, sources)), random).toString('latin1');
      writeFileSync(join(folder, 'chat_template.jinja'), source);
      const loaded = (await loadChatTemplate(folder, { date: '2026-01-02' }))!;
      const text = renderChat(loaded, [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'a'.repeat(200) },
      ]);
      ensure(typeof text === 'string' && text.length <= longestOutput, `a text of ${text.length} characters`);
      ensure(!text.includes('[native code]'), 'the template reached a function of the interpreter');
    };
  },
};
