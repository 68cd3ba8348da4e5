import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { run } from '../../src/cli/program.js';
import type { FakeTerminalOptions } from '../support/fake-terminal.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { bundledCache, referenceModels } from '../support/model-folders.js';
import { tiny, writeDecoder, writeLetterTokenizer } from '../support/tiny-checkpoints.js';
import { drafterVariants } from '../support/tiny-drafters.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
const eagle3 = join(referenceModels, 'eagle3');
const medusa = join(referenceModels, 'medusa');
const small = ['--limit', '2', '-n', '8', '--warmup', '0', '--draft', 'chain:3'];

/** A tiny pair, for everything but the models that come with the package. */
const target = writeDecoder(join(temporary.path, 'target'), tiny);
writeLetterTokenizer(target, tiny);
const tinyEagle3 = drafterVariants
  .find(({ name }) => name === 'EAGLE-3 with d2t')!
  .write(join(temporary.path, 'eagle3'), tiny);
const prompts = join(temporary.path, 'prompts.txt');
writeFileSync(prompts, 'abcabc\ncabcab\nbcabca\naabbcc\nabacad\n');
const tinyPair = ['-t', target, '-d', tinyEagle3];
const tinyBench = [...tinyPair, '-p', prompts, ...small];

async function bench(argv: readonly string[], options: FakeTerminalOptions = {}) {
  const terminal = createFakeTerminal(options);
  const code = await run(['bench', '--cache-dir', bundledCache, '--threads', '1', ...argv], terminal);
  return { code, ...terminal.written };
}

interface JsonSummary {
  readonly type?: string;
  readonly system: string;
  readonly policy: string;
  readonly speculation?: { readonly differingAnswers?: number };
}

describe('mistletoe bench', () => {
  it('prints a table on stdout and progress on stderr', async () => {
    const { code, out, err } = await bench(['-d', eagle3, '-d', medusa, ...small]);
    expect(code).toBe(0);
    expect(out.split('\n').slice(2, 5).join('\n')).toMatch(
      /^\| prompts \| plain .*\n\| prompts \| eagle3 \| chain:3 .*\n\| prompts \| medusa \| chain:3 /,
    );
    expect(out).toContain('Every answer equals plain decoding’s, token for token.');
    expect(err).toMatch(/^bench: 6 to do\n(bench: .*\n)+$/);
    expect(err).toContain('bench: 6/6 (100 %)');
  });

  it.each(['int8', 'int4'])('says that drafting in %s is lossy, and defaults to a chain', async (dtype) => {
    const argv = [...tinyPair, '-p', prompts, '--limit', '2', '-n', '8', '--warmup', '0', '--dtype', dtype];
    const { code, out } = await bench([...argv, '--progress', 'none']);
    expect(code).toBe(0);
    expect(out).toMatch(/\| eagle3 +\| chain:4 /);
    expect(out).toMatch(new RegExp(`${dtype} weights (do not guarantee|is lossy)`));
  });

  it('prints one JSON object that holds every answer', async () => {
    const { code, out, err } = await bench([
      ...[...tinyBench, '--draft', 'dynamic:8,2,2'],
      ...['--format', 'json', '--progress', 'none'],
    ]);
    expect([code, err]).toEqual([0, '']);
    const { setting, records, summaries } = JSON.parse(out) as {
      setting: { threads: number; machine: { nodeVersion: string } };
      records: { tokenIds: number[] }[];
      summaries: JsonSummary[];
    };
    expect(setting).toMatchObject({
      threads: 1,
      machine: { nodeVersion: process.version, device: { kind: 'cpu', dtype: 'float32' } },
    });
    expect(records).toHaveLength(6);
    expect(summaries.map(({ system, policy }) => `${system} ${policy}`)).toEqual([
      'plain none',
      'eagle3 chain:3',
      'eagle3 dynamic:8,2,2',
    ]);
    expect(summaries[1]?.speculation?.differingAnswers).toBe(0);
  });

  it('answers several prompts at the same time with the same answers, and says so', async () => {
    const argv = [...tinyBench, '--limit', '5', '--progress', 'none'];
    const answersOf = async (more: readonly string[]) => {
      const { code, out } = await bench([...argv, '--format', 'json', ...more]);
      expect(code).toBe(0);
      return JSON.parse(out) as {
        setting: { concurrency: number };
        records: { promptId: string; system: string; tokenIds: number[] }[];
        together?: { system: string; tokensPerSecond: number }[];
      };
    };
    const alone = await answersOf([]);
    const together = await answersOf(['--concurrency', '3']);
    expect([alone.setting.concurrency, together.setting.concurrency]).toEqual([1, 3]);
    const pick = ({ records }: typeof alone) =>
      records.map(({ promptId, system, tokenIds }) => ({ promptId, system, tokenIds }));
    expect(pick(together)).toEqual(pick(alone));
    expect(alone).not.toHaveProperty('together');
    expect(together.together?.map(({ system }) => system)).toEqual(['plain', 'eagle3']);
    for (const { tokensPerSecond } of together.together ?? []) expect(tokensPerSecond).toBeGreaterThan(0);
    const { out } = await bench([...argv, '--concurrency', '3']);
    expect(out).toMatch(
      /\n- 3 prompts were answered at the same time: .* together, prefill included: plain on prompts [\d.]+, eagle3 chain:3 on prompts [\d.]+\.\n/,
    );
    expect(out).toContain('Every answer equals plain decoding’s, token for token.');
  });

  it('prints a line per answer and per summary as jsonl, and drafts by itself by default', async () => {
    const { code, out } = await bench([
      ...[...tinyPair, '-p', prompts, '--limit', '1', '-n', '4', '--warmup', '0'],
      ...['--format', 'jsonl', '--progress', 'none'],
    ]);
    expect(code).toBe(0);
    const lines = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as JsonSummary);
    expect(lines.map(({ type }) => type)).toEqual(['setting', 'answer', 'answer', 'summary', 'summary']);
    expect(lines[2]?.policy).toBe('auto');
  });

  it('writes answer files for Spec-Bench, a folder per set and a file per system', async () => {
    const answers = join(temporary.path, 'answers');
    const { code } = await bench([...tinyBench, '--spec-bench', answers, '--progress', 'none']);
    expect(code).toBe(0);
    expect(readdirSync(join(answers, 'prompts')).sort()).toEqual([
      'target-eagle3-chain-3.jsonl',
      'target-plain.jsonl',
    ]);
    const read = (name: string) =>
      readFileSync(join(answers, 'prompts', name), 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as { question_id: string; choices: { turns: string[] }[] })
        .map(({ question_id, choices }) => [question_id, choices[0]?.turns]);
    expect(read('target-plain.jsonl').map(([id]) => id)).toEqual(['prompt-1', 'prompt-2']);
    expect(read('target-eagle3-chain-3.jsonl')).toEqual(read('target-plain.jsonl'));
  });

  it('reads sets known by name from a folder', async () => {
    writeFileSync(
      join(temporary.path, 'gsm8k.jsonl'),
      '{"question_id": 0, "category": "math", "turns": ["What is 2 + 3?"]}\n',
    );
    const argv = [...tinyPair, ...small, '-p', 'gsm8k'];
    const found = await bench([...argv, '--prompts-dir', temporary.path]);
    expect(found.out).toMatch(/\| gsm8k +\| eagle3 /);
    const lost = await bench(argv);
    expect(lost.code).toBe(2);
    expect(lost.err).toMatch(/^error: The prompt set gsm8k .*\nhint: .*\n$/);
  });

  it('ends at Ctrl-C with what is finished', async () => {
    let answers = 0;
    const { code, out } = await bench([...tinyBench, '--format', 'jsonl', '--progress', 'none'], {
      onWrite({ interrupt }) {
        answers += 1;
        if (answers === 3) interrupt();
      },
    });
    expect(code).toBe(130);
    expect(out.match(/"type":"answer"/g)).toHaveLength(2);
    expect(out.match(/"type":"summary"/g)).toHaveLength(2);
  });

  it('ends at Ctrl-C without a table when nothing is finished', async () => {
    const { code, out, err } = await bench([...tinyBench, '--format', 'jsonl', '--progress', 'none'], {
      onWrite({ interrupt }) {
        interrupt();
      },
    });
    expect([code, out.trimEnd().split('\n').length]).toEqual([130, 1]);
    expect(err).toBe('Interrupted before one prompt was answered by every system.\n');
  });

  it.each([
    ['a policy deeper than the heads', ['-d', medusa, '--draft', 'chain:40'], /asks for 40 levels/],
    ['an unknown policy', ['--draft', 'chain'], /"chain" is not understood/],
    ['a drafter that is not there', ['-d', join(referenceModels, 'nowhere')], /nowhere/],
    ['another target without a drafter', ['-t', 'my-model'], /no drafter for the target my-model/],
    ['prompts that are no file', ['-p', 'Why?'], /--prompts is Why\?/],
    ['an unknown format', ['--format', 'xml'], /--format/],
    ['no prompt at a time', ['--concurrency', '0'], /--concurrency/],
  ])('refuses %s in one sentence', async (_, argv, pattern) => {
    const { code, out, err } = await bench(argv);
    expect(err).toMatch(pattern);
    expect(err).toMatch(/^error: \S.*[.?!)]\nhint: {2}\S.*\n$/);
    expect([code, out]).toEqual([2, '']);
  });
});
