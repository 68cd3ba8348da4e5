/** The paper's table in one command: a hub on loopback with tiny checkpoints and sets under the real names. */
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { run } from '../../src/cli/program.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { startFleetRun, settingWords } from '../support/fleet-runs.js';
import type { FakeHub } from '../support/hub-server.js';
import { readContents, startHub } from '../support/hub-server.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { drafterVariants } from '../support/tiny-drafters.js';
import { transpileForTests } from '../support/transpiled-sources.js';
import { writeParquet } from '../support/write-parquet.js';

const { main } = transpileForTests('paper-table');
const audits = new TinyAudits(tiny);
const config = resolve(import.meta.dirname, '../../examples/paper/vicuna-7b.yaml');
const heads = ['double7/vicuna-68m', 'FasterDecoding/medusa-vicuna-7b-v1.3', 'ankner/hydra-vicuna-7b-v1.3', 'yuhuili/EAGLE-Vicuna-7B-v1.3']; // prettier-ignore
let hub: FakeHub;
beforeAll(async () => {
  hub = await startHub();
  hub.add('lmsys/vicuna-7b-v1.3', readContents(audits.targetFolder));
  const systems = [/^draft model$/, /^Medusa/, /^Hydra/, /^EAGLE(?!-3)/];
  heads.forEach((name, index) => {
    const variant = drafterVariants.find((each) => systems[index]!.test(each.name))!;
    hub.add(name, readContents(audits.writeDrafter(variant.name)));
  });
  hub.add('HuggingFaceH4/mt_bench_prompts', {
    'raw/question.jsonl': '{"question_id": 81, "category": "writing", "prompt": ["abcdefgh", "b"]}\n',
  });
  hub.add('openai/openai_humaneval', {
    'openai_humaneval/test-00000-of-00001.parquet': writeParquet([
      { task_id: 'HumanEval/0', prompt: 'hgfedcba' },
    ]),
  });
  hub.add('openai/gsm8k', {
    'main/test-00000-of-00001.parquet': writeParquet([{ question: 'abababab', answer: 'a' }]),
  });
});
afterAll(async () => {
  await hub.close();
  await audits.dispose();
});

/** With a cold cache. */
const freshEnvironment = (): Record<string, string> => ({
  HF_HOME: audits.freshFolder(),
  HF_ENDPOINT: hub.endpoint,
});

const words = (folder: string): string[] => [
  ...['audit', '--config', config, '--download', '--limit', '1', '--repeats', '2', '--draft', 'chain:3'],
  ...[...settingWords(), '--cache-dir', audits.cacheFolder, '--threads', '1', '--out', folder],
];

it('says first what it would download, and fetches nothing', async () => {
  hub.requests.length = 0;
  const terminal = createFakeTerminal({ environment: freshEnvironment() });
  const folder = audits.freshFolder();
  expect(await run([...words(folder), '--dry-run'], terminal), terminal.written.err).toBe(0);
  const { out } = terminal.written;
  for (const name of ['lmsys/vicuna-7b-v1.3', ...heads, 'openai/gsm8k', 'openai/openai_humaneval'])
    expect(out).toContain(`${name}  `);
  expect(out).toMatch(/^It would download [\d.]+ [KM]B into .*, where .* are free:\n/);
  expect(out).toContain('3 prompts or fewer: 48 searches in 60 units.');
  expect(out).toMatch(/^Time: some .* for 3 prompts on the CPU in float32, from the sizes of the models/m);
  expect(hub.requests.filter(({ path }) => path.includes('/resolve/'))).toEqual([]);
  expect(existsSync(folder)).toBe(false);
});

it('runs from a cold cache after kills, and has the columns of the paper', async () => {
  const folder = audits.freshFolder();
  const environment = freshEnvironment();
  let kills = 0;
  let own = [main, ...words(folder), '--workers', '2'];
  for (;;) {
    let isKilled = false;
    const { code, errors } = await startFleetRun(
      own,
      ({ event, step }, child) => {
        const isDue = kills === 0 ? event === 'progress-start' : step !== undefined;
        if (isKilled || kills >= 2 || !isDue) return;
        isKilled = true;
        kills += 1;
        child.kill('SIGKILL');
      },
      environment,
    ).outcome;
    expect(errors).toBe('');
    if (code !== null) {
      expect(code).toBe(0);
      break;
    }
    if (existsSync(join(folder, 'config.json')))
      own = [main, 'audit', '--resume', folder, '--workers', '2', '--cache-dir', audits.cacheFolder];
  }
  expect(kills).toBe(2);
  const report = readFileSync(join(folder, 'report.md'), 'utf8');
  expect(report).toMatch(/^#+ The columns of the paper$/m);
  expect(report).toMatch(
    /\| drafter +\| prompts +\| +speedup \| +attacked \| +accepted length \| +attacked \| +tokens\/s/,
  );
  for (const set of ['mt-bench', 'humaneval', 'gsm8k', 'all'])
    expect(report).toMatch(new RegExp(`\\| ${set} +\\|`));
  const result = JSON.parse(readFileSync(join(folder, 'result.json'), 'utf8')) as {
    readonly drafters: readonly { readonly prompts: readonly { readonly promptId: string }[] }[];
  };
  expect(result.drafters.map(({ prompts }) => prompts.map(({ promptId }) => promptId))).toEqual(
    heads.map(() => ['mt-bench-81', 'humaneval-HumanEval/0', 'gsm8k-0']),
  );
});
