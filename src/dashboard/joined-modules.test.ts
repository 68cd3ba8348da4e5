import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { joinModules } from './joined-modules.js';

const join = (modules: Readonly<Record<string, string>>): string =>
  joinModules('room/main.js', 'start(globalThis)', (path) => {
    const text = modules[path];
    if (text === undefined) throw new Error(`no ${path}`);
    return text;
  });
const run = (modules: Readonly<Record<string, string>>): unknown => {
  const context: { answer?: unknown } = {};
  runInNewContext(join(modules), context);
  return context.answer;
};

const main = (rest: string): string =>
  `${rest}\nexport function start(world) {\n    world.answer = found();\n}\n`;

describe('joined modules', () => {
  it('run as they would apart, each with names of its own', () => {
    const answer = run({
      'room/main.js': main(`import { double, offset as shift } from './parts/arithmetic.js'; // a remark
import {
    limit
} from '../below/limit.js';
const found = () => double(limit) + shift;`),
      'room/parts/arithmetic.js': `import { limit } from '../../below/limit.js';
const found = 2;
export const offset = 3;
export function double(value) {
    return Math.min(limit * 100, value * found);
}
export {};`,
      'below/limit.js':
        'export const limit = 10;\nexport class Unused {\n}\nexport async function later() { }\n',
    });
    expect(answer).toBe(23);
  });

  it('are read once, however often they are imported', () => {
    const text = join({
      'room/main.js': main(
        "import { a } from './a.js';\nimport { b } from './b.js';\nconst found = () => a + b;",
      ),
      'room/a.js': "import { b } from './b.js';\nexport const a = b;",
      'room/b.js': 'export const b = 1;',
    });
    expect(text.match(/const b = 1/g)).toHaveLength(1);
  });

  it.each([
    ["import path from 'node:path';", 'is not of a form'],
    ["import * as all from './a.js';", 'is not of a form'],
    ["export * from './a.js';", 'is not of a form'],
    ['export default 1;', 'is not of a form'],
    ["import { b } from './circle.js';", 'imports lead back to it'],
    ['const text = "</script>";', 'the end of a script'],
    ['const text = "<!--";', 'the end of a script'],
  ])('refuse %s', (line, reason) => {
    const modules = { 'room/main.js': main(line), 'room/circle.js': "import { start } from './main.js';\nexport const b = 1;" }; // prettier-ignore
    expect(() => join(modules)).toThrow(reason);
  });
});
