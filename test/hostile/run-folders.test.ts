/** Run folders that were changed, damaged or passed on: what a run says of itself can be checked, and tells no secrets. */
import { appendFileSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'; // prettier-ignore
import { basename, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../../src/cli/program.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { TinyAudits } from '../support/tiny-audit.js';

const audits = new TinyAudits();
afterAll(async () => {
  await audits.dispose();
});

async function mistletoe(...argv: readonly string[]) {
  const terminal = createFakeTerminal();
  return { code: await run(argv, terminal), ...terminal.written };
}

let words: readonly string[];
/** A finished run with a universal suffix. */
let finished: string;
beforeAll(async () => {
  mkdirSync(audits.cacheFolder, { recursive: true });
  const prompts = join(audits.cacheFolder, 'prompts.txt');
  writeFileSync(prompts, 'abcdefgh\nhgfedcba\n');
  const drafter = audits.writeDrafter('EAGLE-3 with d2t');
  words = [
    ...['audit', '--target', audits.targetFolder, '--prompts', prompts, '--cache-dir', audits.cacheFolder],
    ...[
      '--drafter',
      drafter,
      '--draft',
      'chain:3',
      '--threads',
      '1',
      '--preset',
      'quick',
      '--raw',
      '--keep',
      'distribution',
    ],
    ...['--suffix-length', '5', '--window', '8', '--max-new-tokens', '20', '--epsilon', '3'],
    ...[
      '--shortest-answer',
      '8',
      '--steps',
      '2',
      '--candidates',
      '4',
      '--starts',
      '1',
      '--progress',
      'plain',
    ],
  ];
  finished = audits.freshFolder();
  const { code, err } = await mistletoe(...words, '--universal', '--out', finished);
  expect([code, err.includes('error')]).toEqual([0, false]);
});

function copyRun(): string {
  const copy = audits.freshFolder();
  cpSync(finished, copy, { recursive: true });
  return copy;
}

function change(folder: string, name: string, from: string | RegExp, to: string): void {
  const path = join(folder, name);
  const text = readFileSync(path, 'utf8');
  const changed = text.replace(from, to);
  expect(changed).not.toBe(text);
  writeFileSync(path, changed);
}

describe('mistletoe audit --verify', () => {
  it('says that a run is as it was written', async () => {
    const { code, out, err } = await mistletoe('audit', '--verify', finished);
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(
      /^\S+: config\.json, \d+ units and \d+ steps are unchanged\.\nresult\.json and suffixes\.jsonl follow from them\.\nsha256 [0-9a-f]{64}\n$/,
    );
  });

  it('says so to programs, too, whatever gate the run had', async () => {
    const gated = copyRun();
    const again = await mistletoe('audit', '--resume', gated, '--cache-dir', audits.cacheFolder, '--fail-if-drop', '0.001'); // prettier-ignore
    expect([0, 100]).toContain(again.code);
    const [first, second] = [await mistletoe('audit', '--verify', finished, '--format', 'json'), await mistletoe('audit', '--verify', gated, '--format', 'json')]; // prettier-ignore
    const { sha256, ...rest } = JSON.parse(first.out) as Record<string, unknown>;
    expect(rest).toMatchObject({ folder: finished, result: 'follows' });
    expect(JSON.parse(second.out)).toMatchObject({ sha256, result: 'follows' });
    expect([first.code, second.code]).toEqual([0, 0]);
  });

  it('of an interrupted run says that it has not ended', async () => {
    const copy = copyRun();
    rmSync(join(copy, 'result.json'));
    const { code, out } = await mistletoe('audit', '--verify', copy);
    expect(code).toBe(0);
    expect(out).toContain('The run is not finished: there is no result.json.');
  });

  it.each<[string, (folder: string) => void, RegExp]>([
    ['config.json', (folder) => { change(folder, 'config.json', '"seed": 0', '"seed": 1'); }, /units\.jsonl, line 1, does not follow from config\.json/], // prettier-ignore
    ['a unit', (folder) => { change(folder, 'units.jsonl', '"accepted":', '"accepted":1'); }, /units\.jsonl, line \d+, does not follow from/], // prettier-ignore
    ['null among the units', (folder) => { appendFileSync(join(folder, 'units.jsonl'), 'null\n'); }, /units\.jsonl, line \d+, is not a unit/], // prettier-ignore
    ['no UTF-8 among the units', (folder) => { appendFileSync(join(folder, 'units.jsonl'), Buffer.from([0xff, 0x0a])); }, /units\.jsonl, line \d+, is not UTF-8 text/], // prettier-ignore
    ['a step', (folder) => { change(folder, 'steps.jsonl', '"step":1', '"step":7'); }, /steps\.jsonl, lines \d+ to \d+, are not the steps of the unit/], // prettier-ignore
    ['fewer steps', (folder) => { truncateSync(join(folder, 'steps.jsonl'), 10); }, /units\.jsonl, line \d+, counts \d+ lines of steps\.jsonl, which has 0/], // prettier-ignore
    ['units cut at the end', (folder) => { const path = join(folder, 'units.jsonl'); writeFileSync(path, readFileSync(path, 'utf8').trimEnd().replace(/[^\n]*$/, '')); }, /has no unit universal|does not follow from the units/], // prettier-ignore
    ['a number of the result', (folder) => { change(folder, 'result.json', /"promptsAudited": \d/, '"promptsAudited": 9'); }, /result\.json, line \d+, does not follow from the units/], // prettier-ignore
    ['the level of the verdict', (folder) => { change(folder, 'result.json', /"level": "\w+"/, '"level": "robust"'); }, /result\.json, line \d+, does not follow from the units/], // prettier-ignore
    ['the model in the result', (folder) => { change(folder, 'result.json', /"sha256": "\w{4}/, '"sha256": "0000'); }, /result\.json, line \d+, does not follow from the units/], // prettier-ignore
    ['a key more in the result', (folder) => { change(folder, 'result.json', '{', '{"more": 1,'); }, /result\.json, line \d+, does not follow from the units/], // prettier-ignore
    ['blanks in the result', (folder) => { appendFileSync(join(folder, 'result.json'), '\n'); }, /result\.json, line \d+, does not follow from the units/], // prettier-ignore
    ['no JSON in the result', (folder) => { writeFileSync(join(folder, 'result.json'), '{'); }, /result\.json, line \d+, does not follow from the units/], // prettier-ignore
    ['null as the result', (folder) => { writeFileSync(join(folder, 'result.json'), 'null'); }, /result\.json, line 1, does not follow/], // prettier-ignore
    ['a folder as the result', (folder) => { rmSync(join(folder, 'result.json')); mkdirSync(join(folder, 'result.json')); }, /result\.json cannot be read: it is not a regular file/], // prettier-ignore
    ['a suffix', (folder) => { change(folder, 'suffixes.jsonl', '"suffix":"', '"suffix":"x'); }, /suffixes\.jsonl, line 1, does not follow/], // prettier-ignore
    ['no suffixes', (folder) => { rmSync(join(folder, 'suffixes.jsonl')); }, /suffixes\.jsonl is missing/], // prettier-ignore
  ])('names %s with exit code 2', async (_, damage, message) => {
    const folder = copyRun();
    damage(folder);
    const { code, out, err } = await mistletoe('audit', '--verify', folder);
    expect(err).toMatch(message);
    expect(err).toMatch(/^error: [^\n]*\nhint: {2}[^\n]*\n$/);
    expect([code, out]).toEqual([2, '']);
  });

  it('stands alone, and asks for a run', async () => {
    const beside = await mistletoe('audit', '--verify', finished, '--seed', '3');
    expect(beside.err).toContain('--seed has no effect on --verify');
    const nothing = await mistletoe('audit', '--verify', audits.targetFolder);
    expect([beside.code, nothing.code]).toEqual([2, 2]);
  });
});

describe('times', () => {
  it('with a line that cannot be read do not stop a run at its end', async () => {
    const folder = copyRun();
    appendFileSync(join(folder, 'timings.jsonl'), 'null\n{"unit":\n\u00ff\n', 'latin1');
    const { code } = await mistletoe('audit', '--resume', folder, '--cache-dir', audits.cacheFolder);
    expect(code).toBe(0);
  });
});

describe('what is passed on', () => {
  it('names nothing of the machine that it was made on', async () => {
    const template = join(audits.cacheFolder, 'own.jinja');
    writeFileSync(template, "{{ messages[0]['content'] }}");
    const suffixes = join(audits.cacheFolder, 'given.txt');
    writeFileSync(suffixes, 'kkk\n\u00e9\u00e9\n');
    const chat = words.filter((word) => word !== '--raw');
    const given = audits.freshFolder();
    const { code, err } = await mistletoe(...chat, '--chat', '--chat-template', template, '--suffix', suffixes, '--out', given); // prettier-ignore
    expect([err.includes('error'), [0, 3].includes(code)]).toEqual([false, true]);
    const home = resolve(audits.targetFolder, '..');
    for (const folder of [finished, given]) {
      for (const name of readdirSync(folder)) {
        // Only the run itself needs to find its models again.
        if (name === 'config.json') continue;
        expect(readFileSync(join(folder, name), 'utf8').includes(home), `${name} of ${folder}`).toBe(false);
      }
    }
    const { setup } = JSON.parse(readFileSync(join(given, 'result.json'), 'utf8')) as {
      readonly setup: { readonly command: string; readonly options: { readonly chatTemplate: string } };
    };
    expect(setup.options.chatTemplate).toBe('.../own.jinja');
    expect(setup.command).toContain(`--target .../${basename(audits.targetFolder)} `);
    expect(setup.command).toContain('--suffix .../given.txt');
    expect(readFileSync(join(given, 'result.json'), 'utf8')).toContain(
      'The suffix of .../given.txt, line 2 does not',
    );
  });

  it('can be measured again, although two searches found the same suffix', async () => {
    const copy = copyRun();
    const path = join(copy, 'suffixes.jsonl');
    const [line = ''] = readFileSync(path, 'utf8').split('\n');
    appendFileSync(path, `${line}\n`);
    const count = readFileSync(path, 'utf8').trimEnd().split('\n').length;
    const { code, err, out } = await mistletoe(...words, '--suffix', path, '--out', audits.freshFolder(), '--format', 'json'); // prettier-ignore
    expect(code).toBe(0);
    expect(err).toContain(`suffixes.jsonl, line ${count}: the suffix`);
    expect(err).toContain('line 1 once more; it counts once.');
    expect(JSON.parse(out)).toMatchObject({ setup: { options: { suffixes: count - 1 } } });
  });
});
