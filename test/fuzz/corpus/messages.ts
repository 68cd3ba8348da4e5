/** Lists and records of faults, which cost a kilobyte each where all are collected, and addresses that cannot be read. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { presets } from '../../../src/audit/settings.js';
import { renderResult } from '../../../src/report/audit/write-reports.js';
import { judge } from '../../../src/report/audit/verdict.js';
import { createSampleAudit } from '../../support/report/sample-audit.js';
import type { Files, MaliciousCase } from './case.js';
import { generate, inspect, nest, writeFiles, writeTarget } from './case.js';

/** An empty object lacks every field, so it has many faults in two characters. */
const faults = (count: number, fault = '{}'): string => `[${`${fault},`.repeat(count)}${fault}]`;
const badEntries = (count: number): string =>
  `{${Array.from({ length: count }, (_, index) => `"${index}":[]`).join()}}`;

const withTarget = (
  name: string,
  files: Files,
  command: (target: string) => string[] = generate,
): MaliciousCase => ({ name, write: (folder) => command(writeTarget(folder, files)) });

const withResult = (name: string, change: (text: string) => string): MaliciousCase => ({
  name,
  write: (folder) => {
    const { result } = createSampleAudit({ prompts: 2 });
    const text = renderResult(result, judge(result));
    const before = writeFiles(join(folder, 'before'), { 'result.json': text });
    return ['compare', before, writeFiles(join(folder, 'after'), { 'result.json': change(text) })];
  },
});

const identity = { name: 'tiny', parameterCount: 1000, sha256: 'ab'.repeat(32) };
/** Later fields of the same name count. */
const request = {
  schema: 'mistletoe.audit-run/2',
  ...{ version: '0.3.0', node: 'v20', preset: 'quick', settings: presets.quick, seed: 1, threads: 1 },
  targetFolder: '/models/target',
  target: identity,
  drafters: [{ ...identity, id: 'd', system: 'EAGLE-3', policy: 'chain:3', folder: '/models/d' }],
  ...{ prompts: [{ id: 'p', text: 'Hello', turns: ['Hello'] }], suffixes: [] },
  ...{ transfer: false, universal: false, command: 'mistletoe audit' },
};
const withRun = (name: string, fields: string, words: readonly string[]): MaliciousCase => ({
  name,
  write: (folder) => {
    const contents = `${JSON.stringify(request).slice(0, -1)},${fields}}`;
    return [...words, writeFiles(join(folder, 'run'), { 'config.json': contents, 'units.jsonl': '' })];
  },
});

const withFile = (
  name: string,
  kind: 'json' | 'jsonl',
  contents: string,
  words: (path: string, target: string) => string[],
): MaliciousCase => ({
  name,
  write: (folder) => {
    const files = writeFiles(join(folder, 'files'), { [`file.${kind}`]: contents });
    return words(join(files, `file.${kind}`), writeTarget(folder));
  },
});

const workerAt = (address: string): MaliciousCase => ({
  name: `a queue at ${JSON.stringify(address)}`,
  write: () => ['worker', '--queue', address, '--device', 'cpu'],
});

/** The target's own configuration with more behind it. */
const withConfiguration = (name: string, fields: string): MaliciousCase => ({
  name,
  write: (folder) => {
    const target = writeTarget(folder);
    const own = readFileSync(join(target, 'config.json'), 'utf8').trimEnd().slice(0, -1);
    return inspect(writeFiles(target, { 'config.json': `${own},${fields}}` }));
  },
});

export const messageCases: readonly MaliciousCase[] = [
  withResult('a result of 40,000 arms that are none', (text) =>
    text.replace(/"arms": \[/, `"arms": ${faults(40_000).slice(0, -1)},`),
  ),
  withResult('a result with 100,000 bad options', (text) =>
    text.replace(/"options": \{/, `"options": ${badEntries(100_000).slice(0, -1)},`),
  ),
  withRun('a run of 330,000 prompts that are none', `"prompts":${faults(330_000)}`, ['audit', '--verify']),
  withRun('a run of 330,000 suffixes that are none', `"suffixes":${faults(330_000)}`, ['audit', '--resume']),
  withRun('a run whose settings have 70,000 unknown names', `"settings":${badEntries(70_000)}`, [
    'audit',
    '--resume',
  ]),
  withTarget('70,000 added tokens that are none', {
    'tokenizer_config.json': `{"added_tokens_decoder":${badEntries(70_000)}}`,
  }),
  withTarget('330,000 chat templates that are none', {
    'tokenizer_config.json': `{"chat_template":${faults(330_000)}}`,
  }),
  withTarget('330,000 ends of text that are none', {
    'generation_config.json': `{"eos_token_id":${faults(330_000, '""')}}`,
  }),
  withConfiguration(
    'a configuration whose rotation has 90,000 names',
    `"rope_parameters":${badEntries(90_000)}`,
  ),
  withConfiguration('a configuration whose width is 1e999', '"hidden_size":1e999'),
  withConfiguration(
    'a configuration that gives its width 60,000 times',
    `${'"hidden_size":16,'.repeat(50_000)}"hidden_size":-1`,
  ),
  withTarget(
    'a configuration of a prototype',
    { 'config.json': '{"__proto__":{"model_type":"llama","hidden_size":16}}' },
    inspect,
  ),
  withFile('a tree of 490,000 paths that are none', 'json', faults(490_000, '0'), (path) => [
    'generate',
    '--drafter',
    'medusa',
    '--draft',
    `tree:${path}`,
    '--prompt',
    'abc',
  ]),
  withFile(
    'a prompt of 490,000 turns that are none',
    'jsonl',
    `{"turns":${faults(490_000, '0')}}`,
    (path, target) => generate(target, '--prompts', path),
  ),
  withFile('a prompt of a prototype', 'jsonl', '{"__proto__":{"prompt":"abc"}}', (path, target) =>
    generate(target, '--prompts', path),
  ),
  withFile(
    'a conversation of 330,000 messages that are none',
    'jsonl',
    `{"messages":${faults(330_000)}}`,
    (path, target) => [
      ...[
        'train',
        '--target',
        target,
        '--system',
        'medusa',
        '--data',
        path,
        '--steps',
        '1',
        '--threads',
        '1',
      ],
      ...['--out', join(target, 'run')],
    ],
  ),
  withFile('a suffix of 400,000 nested lists', 'jsonl', nest(400_000), (path, target) => [
    ...['audit', '--target', target, '--drafter', 'eagle', '--raw', '--suffix', path],
  ]),
  workerAt('redis://:p%ss@127.0.0.1:1'),
  workerAt('redis://%u:p@127.0.0.1:1'),
  workerAt('http://127.0.0.1:1'),
];
