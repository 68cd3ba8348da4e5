/** Benchmarks, audits and the server on GGUF files. */
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AuditResult } from '../../src/audit/result.js';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { createRunner } from '../support/run-command.js';
import { transpileForTests } from '../support/transpiled-sources.js';
import { ask, startProcess } from './serve-process.js';
import { writeTinyPair } from './tiny-gguf.js';

const sources = transpileForTests('gguf');
const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
const place = (name: string): string => join(temporary.path, name);
const prompts = place('prompts.txt');
beforeAll(async () => {
  await writeTinyPair(temporary.path);
  writeFileSync(prompts, 'abcdefgh\nhgfedcba\n');
});

const pair = (ending: string): readonly string[] => [
  ...['--target', place(`target${ending}`), '--drafter', place(`draft${ending}`), '--prompts', prompts],
  ...['--draft', 'chain:3', '--threads', '1'],
];

describe('GGUF files', () => {
  it('are measured by bench', async () => {
    const bench = createRunner('bench', place('cache'));
    const { code, out } = await bench([...pair('.gguf'), '--max-new-tokens', '8', '--format', 'json']);
    expect(code).toBe(0);
    expect(JSON.stringify(JSON.parse(out))).toContain('"differingAnswers":0');
  });

  it('are audited, with the clean answers and accepted lengths of their folders', async () => {
    const audit = createRunner('audit', place('cache'));
    const cleanArms = async (ending: string): Promise<readonly unknown[]> => {
      const out = place(`audit${ending}`);
      const { code } = await audit([
        ...[...pair(ending), '--raw', '--out', out, '--preset', 'quick', '--keep', 'distribution'],
        ...['--suffix-length', '5', '--window', '8', '--max-new-tokens', '20', '--epsilon', '3'],
        ...['--shortest-answer', '8', '--steps', '3', '--candidates', '8', '--starts', '2'],
      ]);
      expect(code).toBe(0);
      const { drafters } = JSON.parse(readFileSync(join(out, 'result.json'), 'utf8')) as AuditResult;
      const found = drafters.flatMap(({ prompts }) => prompts.flatMap(({ arms }) => arms));
      expect(found.map(({ arm }) => arm)).toContain('attack');
      return found.filter(({ arm }) => arm === 'clean');
    };
    const expected = await cleanArms('');
    expect(expected).toHaveLength(2);
    // Searches draw their random numbers by the drafter's name, which differs.
    expect(await cleanArms('.gguf')).toEqual(expected);
  });

  it('are served', async () => {
    const words = ['--target', place('target.gguf'), '--drafter', place('draft.gguf'), '--draft', 'chain:3'];
    const { process: child, url } = await startProcess(sources.main, words);
    const response = await ask(url);
    expect([response.status, await response.json()]).toEqual([
      200,
      expect.objectContaining({ model: 'target.gguf', object: 'chat.completion' }),
    ]);
    child.kill('SIGINT');
    await once(child, 'exit');
  });
});
