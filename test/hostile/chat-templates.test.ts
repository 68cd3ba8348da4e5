/** A folder's chat template is a program of a stranger: `inspect` runs it, says what it does in a line, and stays alive. */
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { run } from '../../src/cli/program.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { writeChangedTarget } from '../support/model-folders.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

let count = 0;
async function inspect(template: string): Promise<{ readonly code: number; readonly out: string }> {
  const folder = join(temporary.path, String((count += 1)));
  writeChangedTarget(folder, { 'chat_template.jinja': template });
  const terminal = createFakeTerminal();
  const code = await run(['inspect', folder], terminal);
  expect(terminal.written.err).toBe('');
  return { code, out: terminal.written.out };
}

it.each([
  [
    '{% for i in range(1000000000000) %}{% endfor %}',
    /refused the conversation: range\(\) of 1000000000000 numbers/,
  ],
  [
    '{% set ns = namespace(x="ab") %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}',
    /refused the conversation: it makes a text of \d+ characters/,
  ],
  [' '.repeat(100_000), /cannot be parsed: it has more than 1000 blanks in a row/],
  ['{{ raise_exception("a" * 1000) }}', /refused the conversation/],
])('%.60s', async (template, message) => {
  const { code, out } = await inspect(template);
  expect(code).toBe(2);
  expect(out).toMatch(message);
  expect(out.length).toBeLessThan(3000);
});

it('shows the beginning of a long text', async () => {
  const { code, out } = await inspect('{% for i in range(20000) %}{{ "lorem ipsum " }}{% endfor %}');
  expect(code).toBe(0);
  expect(out).toContain('and 239,600 more characters');
  expect(out.length).toBeLessThan(3000);
});
