import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { tiny, writeCheckpoint, writeDecoder, writeLetterTokenizer } from '../support/tiny-checkpoints.js';
import { drafterVariants, medusaTensors, numbered } from '../support/tiny-drafters.js';
import { expectPlainText, generate, generateJson } from './drafted-answers.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

const target = writeDecoder(join(temporary.path, 'target'), tiny);
writeLetterTokenizer(target, tiny);
const writeDrafter = (variant: string): string =>
  drafterVariants.find(({ name }) => name === variant)!.write(join(temporary.path, variant), tiny);
const [draftModel, medusa, eagle3] = ['draft model', 'Medusa, torch file', 'EAGLE-3 with d2t'].map(writeDrafter) as [string, string, string]; // prettier-ignore
const beside = ['--target', target, '--raw', '--threads', '1'];
const letters = [...beside, '--prompt', 'abcabc', '-n', '30'];

describe('mistletoe generate --drafter', () => {
  it('gives the text of plain decoding, and numbers that fit together', async () => {
    await expectPlainText('eagle3', 'EAGLE-3');
  });

  it('streams the same text into a pipe, and one line about it to stderr', async () => {
    const plain = await generate(letters);
    const { code: exit, out, err } = await generate([...letters, '-d', eagle3, '--draft', 'chain:4']);
    expect(exit).toBe(0);
    expect(out).toBe(plain.out);
    expect(err).toMatch(
      /^30 new tokens in \d+ steps · mean accepted length \d\.\d\d \(bonus included\) · [\d.]+ tokens\/s · draft \d+% verify \d+% · EAGLE-3 chain:4, lossless · reached --max-new-tokens\n$/,
    );
  });

  it('shows accepted tokens by colour on a terminal and by brackets where asked', async () => {
    const plain = await generate(letters);
    const drafted = [...letters, '-d', eagle3, '--draft', 'chain:4'];
    const colored = await generate(drafted, { isTerminal: true });
    expect(colored.out).toMatch(/\u001b\[32m[^\u001b\n]+\u001b\[39m/);
    expect(stripVTControlCharacters(colored.out)).toBe(plain.out);
    const refused = await generate(drafted, { isTerminal: true, environment: { NO_COLOR: '1' } });
    expect(refused.out).toBe(plain.out);
    const marked = await generate([...drafted, '--show-drafts']);
    expect(marked.out).toMatch(/⟨[^⟨⟩]+⟩/);
    expect(marked.out.replace(/[⟨⟩]/g, '')).toBe(plain.out);
    const traced = await generate([...drafted, '--trace']);
    expect(traced.out).toBe(plain.out);
    const [counted] = await generateJson(drafted);
    expect(traced.err.match(/^step \d+ /gm)).toHaveLength(counted!.acceptedLengths.length);
    const draftedSteps = counted!.acceptedLengths.filter((length) => length > 1).length;
    expect(marked.out.split('⟨').length - 1).toBeLessThanOrEqual(draftedSteps);
  });

  it("drafts with the MTP module in the target's checkpoint", async () => {
    const both = writeDrafter("MTP in the target's shards");
    writeLetterTokenizer(both, tiny);
    const asked = ['--target', both, '--raw', '--threads', '1', '--prompt', 'abcabc', '-n', '20'];
    const plain = await generate(asked);
    const { code, out, err } = await generate([...asked, '-d', both, '--draft', 'chain:4']);
    expect([code, out]).toEqual([0, plain.out]);
    expect(err).toContain('MTP chain:4, lossless');
    expect((await generate([...asked, '-d', 'mtp'])).err).toMatch(
      /an MTP module is in the checkpoint of its target/,
    );
  });

  it('takes auto, and one auto for all prompts', async () => {
    const file = join(temporary.path, 'four.txt');
    const prompts = Array.from({ length: 12 }, (_, index) => 'abcdefghijklmnop'.slice(index, index + 3));
    writeFileSync(file, prompts.join('\n'));
    const results = await generateJson([...beside, '--prompts', file, '-n', '2', '-d', draftModel]);
    expect(new Set(results.map(({ draftPolicy }) => draftPolicy))).toEqual(new Set(['auto']));
    expect(results.map(({ steps }) => steps)).toEqual(prompts.map(() => 1));
    // An auto that began anew with each prompt would always begin with the same draft.
    expect(new Set(results.map(({ proposedTokens }) => proposedTokens)).size).toBeGreaterThan(1);
  });

  it('takes trees by name and from a file, and a folder', async () => {
    const tree = join(temporary.path, 'tree.json');
    writeFileSync(tree, '[[0], [1], [0, 0]]');
    const [plain] = await generateJson(letters);
    for (const policy of ['tree:mc_sim_7b_63', `tree:${tree}`, 'dynamic:10,2,3']) {
      const [result] = await generateJson([...letters, '-d', medusa, '--draft', policy]);
      expect(result!.tokenIds).toEqual(plain!.tokenIds);
      expect(result!.draftPolicy).toBe(policy);
    }
  });

  it('ends in the middle of an accepted draft where plain decoding ends', async () => {
    const [whole] = await generateJson(letters);
    for (const place of [9, 20]) {
      const stop = ['--stop', whole!.text.slice(place, place + 4)];
      const [plain] = await generateJson([...letters, ...stop]);
      const [result] = await generateJson([...letters, ...stop, '-d', eagle3, '--draft', 'chain:4']);
      expect(result!.text).toBe(plain!.text);
      expect(result!.tokenIds).toEqual(plain!.tokenIds);
    }
  });
});

describe.each(['int8', 'int4'])('with %s weights', (type) => {
  const quantized = [...letters, '-d', eagle3, '--dtype', type];

  it('drafting is called lossy in the summary and in JSON, and the default is a chain', async () => {
    expect((await generate(quantized)).err).toContain(`EAGLE-3 chain:4, lossy (${type} weights)`);
    const [result] = await generateJson(quantized);
    expect(result!.verification).toEqual({ rule: 'greedy', lossless: false });
  });

  it('auto is allowed and noted', async () => {
    const { code: exit, err } = await generate([...quantized, '--draft', 'auto']);
    expect(exit).toBe(0);
    expect(err).toContain(`With ${type} weights, --draft auto depends on timing`);
  });
});

describe('with a temperature', () => {
  const drawn = [...letters, '-d', eagle3, '--temperature', '0.9'];

  it('the default is a chain, and the same seed gives the same text', async () => {
    const [first] = await generateJson([...drawn, '--seed', '5']);
    const [again] = await generateJson([...drawn, '--seed', '5']);
    const [other] = await generateJson([...drawn, '--seed', '6']);
    expect(first).toMatchObject({
      draftPolicy: 'chain:4',
      verification: { rule: 'rejection', lossless: true },
    });
    expect(again!.tokenIds).toEqual(first!.tokenIds);
    expect(again!.acceptedLengths).toEqual(first!.acceptedLengths);
    expect(other!.tokenIds).not.toEqual(first!.tokenIds);
  });

  it('auto is allowed and noted', async () => {
    const { code: exit, err } = await generate([...drawn, '--draft', 'auto']);
    expect(exit).toBe(0);
    expect(err).toMatch(/^note: {2}.*the same seed may give a different text\.\n\d+ new tokens/);
  });

  it('typical acceptance is called lossy in the summary, in JSON and in the help', async () => {
    const typical = [...drawn, '--verification-rule', 'typical'];
    expect((await generate(typical)).err).toContain('EAGLE-3 chain:4, lossy (typical acceptance)');
    const [result] = await generateJson(typical);
    expect(result!.verification).toEqual({ rule: 'typical', lossless: false });
    const help = (await generate(['--help-all'])).out.replace(/\s+/g, ' ');
    expect(help).toContain('lossless except in int8 and int4, typical is lossy');
    expect(help).toContain('above temperature 0 it also depends on drafter and --draft');
  });
});

describe('a drafter that is no number', () => {
  it('is reported, and the answer is the plain one', async () => {
    const tensors = medusaTensors(tiny, numbered(''));
    const bias = tensors['1.0.linear.bias']!;
    const spoiled = {
      ...tensors,
      '1.0.linear.bias': { ...bias, values: Array.from(bias.values, () => NaN) },
    };
    const drafter = writeCheckpoint(join(temporary.path, 'nan'), 'medusa_lm_head.pt', spoiled, {});
    const argv = [...beside, '--prompt', 'abcab', '-n', '12'];
    const plain = await generate(argv);
    const { code: exit, out, err } = await generate([...argv, '-d', drafter, '--draft', 'chain:3']);
    expect(exit).toBe(0);
    expect(out).toBe(plain.out);
    expect(err).toMatch(
      /^note: {2}.*NaN.*continues with plain decoding\.\n12 new tokens in 11 steps · .*finished without the drafter/,
    );
    const [result] = await generateJson([...argv, '-d', drafter, '--draft', 'chain:3']);
    expect(result).toMatchObject({ drafterFailed: true, acceptedTokens: 0, meanAcceptedLength: 1 });
  });
});

describe('mistletoe generate --drafter refuses', () => {
  const treeFile = (name: string, text: string): string => {
    const path = join(temporary.path, name);
    writeFileSync(path, text);
    return `tree:${path}`;
  };
  it.each<[readonly string[], ...RegExp[]]>([
    [['--draft', 'chain:4'], /--draft was given without a drafter/, /eagle3/],
    [['--verification-rule', 'greedy'], /--verification-rule was given without a drafter/],
    [['--show-drafts'], /--show-drafts was given without a drafter/],
    [['--trace'], /--trace was given without a drafter/],
    [
      ['-d', 'eagle-3'],
      /no bundled drafter "eagle-3"/,
      /Did you mean eagle3.*Bundled: sps, medusa, hydra, eagle, eagle3/,
    ],
    [['-d', './nowhere'], /nowhere does not exist/],
    [['-d', eagle3], /hidden size 16; the target's is 320/],
    [['-d', 'sps', '--draft', 'chane:4'], /"chane:4" is not understood/, /chain:4/],
    [['-d', 'sps', '--draft', 'chain:0'], /"chain:0" is not understood/],
    [['-d', 'medusa', '--draft', 'chain:9'], /asks for 9 levels; Medusa has \d heads/],
    [['-d', 'eagle3', '--draft', 'dynamic:60,5,5000'], /a top-k up to 64/],
    [['-d', 'sps', '--draft', 'tree:nowhere.json'], /Cannot read the tree file nowhere\.json/],
    [['-d', 'sps', '--draft', treeFile('orphan.json', '[[0], [1, 0]]')], /\[1, 0\] without its parent \[1\]/],
    [['-d', 'sps', '--draft', treeFile('twice.json', '[[0], [0]]')], /lists \[0\] twice/],
    [['-d', 'sps', '--draft', treeFile('rank.json', '[[0], [4096]]')], /rank 4096.*vocabulary size 4096/],
    [['-d', 'sps', '--draft', treeFile('broken.json', '[[0]')], /is not JSON/],
    [
      ['-d', 'sps', '--verification-rule', 'greedy', '--temperature', '1'],
      /Greedy verification.*temperature 1/,
    ],
    [['-d', 'sps', '--verification-rule', 'typical'], /Typical acceptance.*above 0/],
    [['-d', 'sps', '--verification-rule', 'sampling'], /'sampling'.*greedy, rejection, block, typical/],
    [['-d', 'sps', '--show-drafts', '--format', 'json'], /--show-drafts marks text/],
  ])('%j', async (argv, ...patterns) => {
    const prompts = join(temporary.path, 'refused.txt');
    writeFileSync(prompts, 'One?\n');
    const { code: exit, out, err } = await generate(['--prompts', prompts, ...argv]);
    for (const pattern of patterns) expect(err).toMatch(pattern);
    expect(err).toMatch(/^error: \S.*[.?!)]\n(hint: {2}\S.*\n)?$/);
    expect(out).toBe('');
    expect(exit).toBe(2);
  });
});
