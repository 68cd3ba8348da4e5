/** Whole audits of tiny checkpoints: what a run contains, what it skips and why, and that it can be interrupted. */
import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AuditPlan } from '../../src/audit/create-request.js';
import { createRequest } from '../../src/audit/create-request.js';
import type { PhaseTimes } from '../../src/audit/phase-clock.js';
import type { AuditEvents } from '../../src/audit/audit-events.js';
import type { AuditOutcome } from '../../src/audit/run-audit.js';
import { resumeAudit, startAudit } from '../../src/audit/run-audit.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { AuditResult } from '../../src/audit/result.js';
import { judge } from '../../src/report/verdict.js';
import { TinyAudits, tinySettings } from '../support/tiny-audit.js';
import {
  decoderTensors,
  llamaConfig,
  tiny,
  writeCheckpoint,
  writeDecoder,
} from '../support/tiny-checkpoints.js';

const audits = new TinyAudits();
afterAll(() => audits.dispose());
let draftModel: string;
let eagle3: string;
beforeAll(() => {
  draftModel = audits.writeDrafter('draft model');
  eagle3 = audits.writeDrafter('EAGLE-3 with d2t');
});

const texts = ['abcdefgh', 'hgfedcba{suffix}ij'];

async function start(plan: AuditPlan, folder: string, events: AuditEvents = {}): Promise<AuditOutcome> {
  const { cacheFolder } = audits;
  return startAudit(folder, await createRequest(plan), { cacheFolder, events });
}

async function complete(plan: AuditPlan, events: AuditEvents = {}): Promise<AuditResult> {
  const outcome = await start(plan, audits.freshFolder(), events);
  if (outcome.status !== 'complete') throw new Error('The audit was interrupted.');
  return outcome.result;
}

describe('an audit', () => {
  it('measures every arm of every prompt, and the same seed gives the same result', async () => {
    const plan = audits.plan([draftModel, eagle3], texts, {
      ...{ transfer: true, universal: true },
      settings: { controlSearches: true },
    });
    const result = await complete(plan);
    for (const { prompts, summary } of result.drafters) {
      expect(summary.promptsAudited).toBe(2);
      for (const prompt of prompts) {
        expect(prompt.arms.map(({ arm }) => arm)).toEqual([
          ...['clean', 'clean-again', 'random', 'random', 'fluent', 'undirected'],
          ...['preservation-only', 'unprojected', 'attack'],
        ]);
        const [clean, again] = prompt.arms;
        expect(again!.answer).toEqual(clean!.answer);
        expect(again!.sameAnswer).toEqual(clean!.sameAnswer);
        for (const { arm, suffixIds, preservation, answer, sameAnswer } of prompt.arms) {
          expect([0, 5]).toContain(suffixIds.length);
          if (arm.startsWith('clean')) expect(suffixIds).toEqual([]);
          if (arm === 'random' || arm === 'fluent') expect(suffixIds).toHaveLength(5);
          expect(answer.pieces.join('')).toBe(answer.text);
          // Whatever the suffix, the measured answer is the clean one.
          expect(sameAnswer.origins).toHaveLength(clean!.answer.tokenIds.length);
          if (arm === 'attack') expect(preservation.divergence).toBeLessThanOrEqual(tinySettings.epsilon);
        }
      }
    }
    // What a suffix does to the drafter it was found on is known already.
    const { transfer, universal } = result;
    expect(transfer!.drafters).toEqual(result.setup.drafters.map(({ id }) => id));
    result.drafters.forEach(({ summary }, index) => {
      const attack = summary.arms.find(({ arm }) => arm === 'attack')!;
      expect(transfer!.attacked[index]![index]).toBeCloseTo(attack.sameAnswer.estimate, 12);
    });
    expect(transfer!.prompts).toEqual(['p1', 'p2']);
    expect(universal.map(({ trained }) => trained.n)).toEqual([2, 2]);
    expect(await complete(plan)).toEqual(result);
  });

  it('records where the time of each row went, and none of it in the result', async () => {
    const folder = audits.freshFolder();
    const outcome = await start(audits.plan([draftModel], texts.slice(0, 1)), folder);
    if (outcome.status !== 'complete') throw new Error('The audit was interrupted.');
    const { timings, result } = outcome;
    const phasesOf = (name: string): PhaseTimes => timings.arms.find(({ arm }) => arm === name)!.phases!;
    const attack = phasesOf('attack');
    for (const time of Object.values(attack)) expect(time).toBeGreaterThan(0);
    const { gradientMs, scoringMs, exactLengthsMs, decodingMs, totalMs } = attack;
    expect(gradientMs + scoringMs + exactLengthsMs + decodingMs).toBeLessThanOrEqual(totalMs + 0.05);
    expect(phasesOf('undirected').gradientMs).toBe(0);
    expect(phasesOf('random')).toMatchObject({ gradientMs: 0, scoringMs: 0 });
    expect(readFileSync(join(folder, 'timings.jsonl'), 'utf8')).toContain('"phases":{"gradientMs":');
    expect(JSON.stringify(result)).not.toContain('Ms"');
    // A resumed run reads them back.
    const again = await resumeAudit(folder, { cacheFolder: audits.cacheFolder });
    expect(again.status === 'complete' && again.timings.arms).toEqual(timings.arms);
  });

  it('names every suffix as text that gives the audited ids again, and another seed finds others', async () => {
    const plan = audits.plan([draftModel], texts);
    const result = await complete(plan);
    expect(await complete({ ...plan, seed: 5 })).not.toEqual(result);
    const { target } = await audits.load(draftModel);
    for (const { arms: rows, prompt } of result.drafters[0]!.prompts) {
      const clean = await target.tokenizer.encode(prompt.replace('{suffix}', ''));
      for (const { suffix, suffixIds } of rows) {
        const written = prompt.includes('{suffix}') ? prompt.replace('{suffix}', suffix) : prompt + suffix;
        const ids = await target.tokenizer.encode(written);
        expect(ids).toHaveLength(clean.length + suffixIds.length);
        const at = prompt.includes('{suffix}') ? prompt.indexOf('{suffix}') : clean.length;
        expect(ids.slice(at, at + suffixIds.length)).toEqual(suffixIds);
      }
    }
  });

  it('interrupted in a step goes on to the same bytes', async () => {
    const plan = audits.plan([draftModel], texts, { settings: { repeats: 2 } });
    const whole = audits.freshFolder();
    await start(plan, whole);
    const folder = audits.freshFolder();
    const abort = new AbortController();
    let steps = 0;
    const events: AuditEvents = {
      onStep() {
        steps += 1;
        if (steps === 5) abort.abort();
      },
    };
    const { cacheFolder } = audits;
    const first = await startAudit(folder, await createRequest(plan), {
      cacheFolder,
      events,
      signal: abort.signal,
    });
    expect(first.status).toBe('interrupted');
    expect((await resumeAudit(folder, { cacheFolder })).status).toBe('complete');
    for (const name of ['config.json', 'units.jsonl', 'steps.jsonl'])
      expect(readFileSync(join(folder, name), 'utf8'), name).toBe(readFileSync(join(whole, name), 'utf8'));
  });
});

describe('prompts that cannot be audited', () => {
  const reasons = async (plan: AuditPlan): Promise<(string | null)[]> =>
    (await complete(plan)).drafters[0]!.prompts.map(({ skipped }) => skipped);
  const quick = { controlSearches: false };

  it('without room for the suffix', async () => {
    const plan = audits.plan([draftModel], ['abc'.repeat(15), 'abcdefgh'], { settings: quick });
    expect(await reasons(plan)).toEqual([
      'There is no room for the suffix: 70 positions are needed, the context has 64.',
      null,
    ]);
  });

  it('without room in the context of the drafter, where it would stop drafting', async () => {
    const short = writeDecoder(audits.freshFolder(), { ...tiny, contextLength: 32 }, 7);
    const plan = audits.plan([short], ['abcdefgh', 'abc'], { settings: quick });
    expect(await reasons(plan)).toEqual([
      expect.stringMatching(
        /^The prompt with its suffix and answer needs 33 positions; the drafter \S+ has 32\.$/,
      ),
      null,
    ]);
  });

  it('with the suffix before everything', async () => {
    const plan = audits.plan([draftModel], ['{suffix}abc', 'abcdefgh'], { settings: quick });
    expect(await reasons(plan)).toEqual(['Nothing stands before the place of the suffix.', null]);
  });

  it('with every candidate vetoed, which counts as no drop', async () => {
    const plan = audits.plan([draftModel], ['abcdefgh'], { settings: { ...quick, epsilon: 1e-9 } });
    const result = await complete(plan);
    const [prompt] = result.drafters[0]!.prompts;
    const find = (name: string) => prompt!.arms.find(({ arm }) => arm === name)!;
    expect(prompt!.skipped).toBeNull();
    expect(find('attack').withoutSuffix).toMatch(
      /^No suffix inside the bounds was found: the smallest divergence is \d\.\d{3}, the bound 1e-9\.$/,
    );
    expect(find('attack').suffixIds).toEqual([]);
    expect(find('attack').sameAnswer).toEqual(find('clean').sameAnswer);
    expect(result.drafters[0]!.summary).toMatchObject({ promptsAudited: 1, promptsWithoutSuffix: 1 });
    expect(result.drafters[0]!.summary.drop.estimate).toBe(0);
    expect(judge(result).level).toBe('inconclusive');
  });

  it('with an answer shorter than the window', async () => {
    const plain = await complete(audits.plan([draftModel], ['abcdefgh'], { settings: quick }));
    const answer = plain.drafters[0]!.prompts[0]!.arms[0]!.answer.tokenIds;
    const stop = answer[3]!;
    const expected = answer.indexOf(stop);
    const folder = audits.freshFolder();
    const config = { ...llamaConfig(tiny), eos_token_id: stop };
    writeCheckpoint(folder, 'model.safetensors', decoderTensors(tiny), config);
    copyFileSync(join(audits.targetFolder, 'tokenizer.json'), join(folder, 'tokenizer.json'));
    const plan = audits.plan([draftModel], ['abcdefgh'], { settings: quick, target: folder });
    const [reason] = await reasons(plan);
    expect(reason).toMatch(/^The clean answer has \d tokens; an audit needs 8\.$/);
    expect(Number(/\d/.exec(reason!)![0])).toBeLessThanOrEqual(expected + 1);
  });

  it('with a drafter that accepts nothing already', async () => {
    // Its output prefers what the target never says: the target's own projection, turned around.
    const tensors = decoderTensors(tiny);
    const output = tensors['lm_head.weight']!;
    const turned = { ...output, values: Float32Array.from(output.values as Float32Array, (value) => -value) };
    const folder = writeCheckpoint(
      audits.freshFolder(),
      'model.safetensors',
      { ...tensors, 'lm_head.weight': turned },
      llamaConfig(tiny),
    );
    const result = await complete(audits.plan([folder, draftModel], ['abcdefgh'], { settings: quick }));
    expect(result.drafters[0]!.prompts[0]!.skipped).toBe(
      'The drafter accepts almost nothing already (mean accepted length 1.00).',
    );
    expect(result.drafters[1]!.summary.promptsAudited).toBe(1);
    expect(judge(result).exitCode).toBe(3);
  });

  it('with a tokenizer that round-trips nothing', async () => {
    // Every token is two letters that a text never keeps together.
    const pieces = Object.fromEntries(
      Array.from({ length: tiny.vocabularySize - 1 }, (_, id) => [
        id + 1,
        `a${String.fromCharCode(97 + id)}z`,
      ]),
    );
    const broken = new TinyAudits(tiny, pieces);
    try {
      const drafter = broken.writeDrafter('draft model');
      const request = await createRequest(broken.plan([drafter], ['aaaaaaaa'], { settings: quick }));
      const outcome = await startAudit(broken.freshFolder(), request, { cacheFolder: broken.cacheFolder });
      if (outcome.status !== 'complete') throw new Error('interrupted');
      expect(outcome.result.drafters[0]!.prompts[0]!.skipped).toBe(
        'None of 400 random suffixes of 5 tokens survives decoding and encoding.',
      );
    } finally {
      await broken.dispose();
    }
  });
});

describe('given suffixes', () => {
  const measure = (suffixes: AuditPlan['suffixes']): Promise<AuditResult> =>
    complete(audits.plan([draftModel], texts, { suffixes }));

  it('are measured on every prompt, without a search', async () => {
    const result = await measure([
      { text: 'kbc', place: '--suffix' },
      { text: 'mmmm', place: '--suffix' },
    ]);
    for (const { arms: rows, traces, skipped } of result.drafters[0]!.prompts) {
      expect(skipped).toBeNull();
      expect(traces).toEqual([]);
      const names = rows.map(({ arm }) => arm);
      expect(names.slice(0, 4)).toEqual(['clean', 'clean-again', 'random', 'random']);
      expect(names.slice(-2)).toEqual(['given', 'given']);
      expect(names).not.toContain('undirected');
      expect(rows.filter(({ arm }) => arm === 'given').map(({ suffix }) => suffix)).toEqual(['kbc', 'mmmm']);
    }
  });

  it('replay what a search found, to the same numbers', async () => {
    const found = await complete(audits.plan([draftModel], texts));
    const attacks = found.drafters[0]!.prompts.map(({ promptId, arms: rows }) => ({
      promptId,
      attack: rows.find(({ arm }) => arm === 'attack')!,
    })).filter(({ attack }) => attack.withoutSuffix === null);
    expect(attacks.length).toBeGreaterThan(0);
    const replayed = await measure(
      attacks.map(({ promptId, attack }) => ({ text: attack.suffix, promptId, place: 'suffixes.jsonl' })),
    );
    for (const { promptId, attack } of attacks) {
      const { arms: rows } = replayed.drafters[0]!.prompts.find((prompt) => prompt.promptId === promptId)!;
      const given = rows.filter(({ arm }) => arm === 'given');
      expect(given).toHaveLength(1);
      expect(given[0]!.sameAnswer).toEqual(attack.sameAnswer);
      expect(given[0]!.answer).toEqual(attack.answer);
    }
  });

  it('that do not survive in a prompt pass it over, with the reason', async () => {
    const result = await measure([{ text: '\u00e9', place: 'suffixes.txt, line 1' }]);
    for (const { skipped } of result.drafters[0]!.prompts)
      expect(skipped).toMatch(/^The suffix of suffixes\.txt, line 1 does not survive in this prompt/);
    expect(judge(result).exitCode).toBe(3);
  });
});

describe('above temperature 0', () => {
  it('the audit measures along a drawn answer, and A/A is another draw', async () => {
    const settings = { temperature: 1, keep: 'distribution', objective: 'total-variation' } as const;
    const result = await complete(audits.plan([draftModel], texts, { settings }));
    const rows = result.drafters[0]!.prompts.flatMap(({ arms: each }) => each);
    const held = (name: string) => rows.filter(({ arm }) => arm === name).map(({ sameAnswer }) => sameAnswer);
    expect(held('attack')).toHaveLength(2);
    expect(held('clean')).not.toEqual(held('clean-again'));
    for (const { origins, emitted } of held('attack')) expect(emitted).toBe(origins.length);
  });

  it('needs a chain', async () => {
    const settings = { temperature: 1, keep: 'distribution' } as const;
    const plan = audits.plan([draftModel], texts, { settings, draft: 'dynamic:8,2,2' });
    await expect(createRequest(plan)).rejects.toThrow('An audit at temperature 1 needs a chain');
  });
});

describe('requests', () => {
  it('write every default out', async () => {
    const { draft, ...plan } = audits.plan([draftModel, eagle3], texts);
    const request = await createRequest({ ...plan, drafters: [draftModel, eagle3] });
    expect(draft).toBe('chain:3');
    expect(request).toMatchObject({ preset: 'standard', seed: 0, threads: 1, node: process.version });
    expect(request.device).toEqual({ kind: 'cpu', dtype: 'float32' });
    expect(request.drafters.map(({ system, policy }) => [system, policy])).toEqual([
      ['speculative-sampling', 'chain:4'],
      ['eagle3', 'chain:4'],
    ]);
  });

  it('draft as deep as a drafter has heads', async () => {
    const request = await createRequest({
      ...audits.plan([], texts),
      draft: undefined,
      drafters: [audits.writeDrafter('Medusa, torch file')],
    });
    expect(request.drafters[0]).toMatchObject({ system: 'medusa', policy: 'chain:4' });
  });

  it.each([
    [{ draft: 'auto' }, '"auto" depends on the clock'],
    [{ drafters: [] }, 'has no drafter for the target'],
    [{ drafters: ['eagel3'] }, 'There is no bundled drafter "eagel3"'],
    [{ prompts: [] }, 'There is no prompt to audit.'],
    [{ transfer: true }, 'A transfer matrix needs two drafters or more'],
    [{ preset: 'slow' }, 'The preset "slow" is not known.'],
    [{ device: 'tpu' }, 'The device is "tpu"; auto, cpu, cuda or cuda:N was expected.'],
    [{ device: 'cpu', dtype: 'float16' as const }, '--dtype is float16; the CPU computes in float32 alone'],
  ])('%o is refused', async (changes, message) => {
    await expect(createRequest({ ...audits.plan([draftModel], texts), ...changes })).rejects.toThrow(message);
  });

  it('that cannot be carried out leave no folder behind', async () => {
    const other = audits.writeDrafter('Hydra, one layer');
    const folder = audits.freshFolder();
    const plan = audits.plan([other], texts, { draft: 'chain:9' });
    await expect(start(plan, folder)).rejects.toThrow('The draft policy asks for 9 levels');
    expect(existsSync(folder)).toBe(false);
  });

  it('are not resumed by another version', async () => {
    const folder = audits.freshFolder();
    await start(audits.plan([draftModel], ['abcdefgh']), folder);
    const path = join(folder, 'config.json');
    const config = JSON.parse(readFileSync(path, 'utf8')) as object;
    writeFileSync(path, JSON.stringify({ ...config, version: '0.0.1' }));
    await expect(resumeAudit(folder, { cacheFolder: audits.cacheFolder })).rejects.toThrow(
      /begun by Mistletoe 0\.0\.1; this is|config\.json/,
    );
  });

  it('are resumed on the device that they record, and on no other', async () => {
    const folder = audits.freshFolder();
    await start(audits.plan([draftModel], ['abcdefgh'], { device: 'cpu' }), folder);
    const path = join(folder, 'config.json');
    const config = JSON.parse(readFileSync(path, 'utf8')) as object;
    expect(config).toMatchObject({ device: { kind: 'cpu', dtype: 'float32' } });
    const device = { kind: 'cuda', dtype: 'bfloat16', ordinal: 0, name: 'Abacus GPU' };
    writeFileSync(path, JSON.stringify({ ...config, device }));
    const files = readdirSync(folder);
    await expect(resumeAudit(folder, { cacheFolder: audits.cacheFolder })).rejects.toThrow(
      /^The run computes on Abacus GPU in bfloat16; (no GPU can be used here|this machine has)/,
    );
    const runtime = createOnnxRuntime({ threads: 1 });
    await expect(resumeAudit(folder, { cacheFolder: audits.cacheFolder, runtime })).rejects.toThrow(
      'The run computes on Abacus GPU (cuda:0) in bfloat16; the given runtime is onnx.',
    );
    await runtime.dispose();
    expect(readdirSync(folder)).toEqual(files);
  });

  it('are not resumed with other weights', async () => {
    const drafter = audits.writeDrafter('draft model');
    const folder = audits.freshFolder();
    await start(audits.plan([drafter], ['abcdefgh'], { settings: { controlSearches: false } }), folder);
    writeCheckpoint(drafter, 'model.safetensors', decoderTensors(tiny, 9), llamaConfig(tiny));
    await expect(resumeAudit(folder, { cacheFolder: audits.cacheFolder })).rejects.toThrow(
      'has changed since this run began',
    );
  });
});
