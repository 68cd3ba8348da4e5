/** Pipes and devices where files are expected, and run folders of strangers. Linux alone has all of them. */
import { execFileSync } from 'node:child_process';
import { cpSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RunFolder } from '../../../src/runs/run-folder.js';
import { renderResult } from '../../../src/report/audit/write-reports.js';
import { createSampleAudit } from '../../support/report/sample-audit.js';
import { judge } from '../../../src/report/audit/verdict.js';
import type { MaliciousCase } from './case.js';
import { generate, inspect, nest, writeFiles, writeTarget } from './case.js';

function makePipe(path: string): string {
  rmSync(path, { force: true });
  execFileSync('mkfifo', [path]);
  return path;
}

function linkZeros(path: string): string {
  rmSync(path, { force: true });
  symlinkSync('/dev/zero', path);
  return path;
}

const pipeAs = (file: string, command: (target: string) => string[] = inspect): MaliciousCase => ({
  name: `a pipe as ${file}`,
  write: (folder) => {
    const target = writeTarget(folder);
    makePipe(join(target, file));
    return command(target);
  },
});
const zerosAs = (file: string): MaliciousCase => ({
  name: `/dev/zero as ${file}`,
  write: (folder) => {
    const target = writeTarget(folder);
    linkZeros(join(target, file));
    return inspect(target);
  },
});

const emptyFolder = (folder: string, name: string): string => writeFiles(join(folder, name), {});
const auditText = (): string => {
  const { result } = createSampleAudit({ prompts: 2 });
  return renderResult(result, judge(result));
};

/** A run whose last unit was changed behind its back. */
function writeForgedRun(folder: string): string {
  const path = join(folder, 'run');
  const run = RunFolder.create(path, { schema: 'mistletoe.audit-run/2', version: '0.2.0' });
  run.complete('a', { result: 1 });
  run.close();
  cpSync(join(path, 'units.jsonl'), join(path, 'units.old'));
  writeFileSync(join(path, 'units.jsonl'), '{"unit":"a","stepLines":0,"data":{"result":2},"chain":"00"}\n');
  rmSync(join(path, 'units.old'));
  return path;
}

export const placeCases: readonly MaliciousCase[] = [
  ...['model.safetensors', 'config.json', 'tokenizer.json', 'tokenizer_config.json'].map((file) =>
    pipeAs(file),
  ),
  pipeAs('chat_template.jinja', generate),
  ...['model.safetensors', 'config.json', 'tokenizer.json'].map(zerosAs),
  {
    name: 'a pipe of prompts',
    write: (folder) =>
      generate(writeTarget(folder), '--prompts', makePipe(join(emptyFolder(folder, 'files'), 'p.jsonl'))),
  },
  {
    name: '/dev/zero as a tree',
    write: (folder) => {
      const tree = linkZeros(join(emptyFolder(folder, 'files'), 'tree.json'));
      return generate(
        writeTarget(folder),
        '--drafter',
        'medusa',
        '--draft',
        `tree:${tree}`,
        '--prompt',
        'abc',
      );
    },
  },
  {
    name: '/dev/zero as a chat template',
    write: (folder) => generate(writeTarget(folder), '--chat-template', '/dev/zero', '--prompt', 'abc'),
  },
  {
    name: 'a pipe of suffixes',
    write: (folder) => {
      const suffixes = makePipe(join(emptyFolder(folder, 'files'), 'suffixes.txt'));
      return ['audit', '--target', writeTarget(folder), '--drafter', 'eagle', '--suffix', suffixes];
    },
  },
  {
    name: 'a pipe in the place of a run’s config',
    write: (folder) => {
      const run = emptyFolder(folder, 'run');
      makePipe(join(run, 'config.json'));
      return ['audit', '--resume', run];
    },
  },
  { name: 'a run with a forged unit', write: (folder) => ['audit', '--resume', writeForgedRun(folder)] },
  {
    name: 'a result of 400,000 nested lists',
    write: (folder) => {
      const before = writeFiles(join(folder, 'before'), { 'result.json': auditText() });
      const after = writeFiles(join(folder, 'after'), {
        'result.json': auditText().replace(/"headline": "[^"]*"/, `"headline": ${nest(400_000)}`),
      });
      return ['compare', before, after];
    },
  },
  {
    name: 'a folder whose name steers the terminal',
    write: (folder) => inspect(emptyFolder(folder, '\u001b[2J\u001b]0;owned\u0007')),
  },
];
