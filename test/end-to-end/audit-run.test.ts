/** Whole audits of tiny checkpoints: what a run contains, what it skips and why, and that it can be interrupted. */
import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AuditPlan } from '../../src/audit/audit-request.js';
import { createRequest } from '../../src/audit/audit-request.js';
import type { AuditEvents } from '../../src/audit/units/audit-unit.js';
import type { PhaseTimes } from '../../src/audit/arms/phase-clock.js';
import type { ArmName, AuditResult } from '../../src/audit/result.js';
import { generateText } from '../../src/decode/generate.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { rebuildResult, startAudit } from '../../src/audit/run-audit.js';
import { judge } from '../../src/report/audit/verdict.js';
import { briefSettings, TinyAudits, tinySettings } from '../support/tiny-audit.js';
import {
  decoderTensors,
  llamaConfig,
  shallow,
  tiny,
  writeCheckpoint,
  writeDecoder,
} from '../support/tiny-checkpoints.js';

const audits = new TinyAudits(shallow);
afterAll(() => audits.dispose());
let draftModel: string;
let medusa: string;
beforeAll(() => {
  draftModel = audits.writeDrafter('draft model');
  medusa = audits.writeDrafter('Medusa, torch file');
});

const texts = ['abcdefgh', 'hgfedcba{suffix}ij'];
const short = { maxNewTokens: 12 };

describe('an audit', () => {
  it('measures every arm of every prompt, and what suffixes do beyond their own drafter and prompt', async () => {
    const plan = audits.plan([draftModel, medusa], texts, {
      ...{ transfer: true, universal: true },
      settings: { ...briefSettings, ...short, controlSearches: true, randomDraws: 2 },
    });
    const result = await audits.complete(plan);
    for (const { prompts, summary } of result.drafters) {
      expect(summary.promptsAudited).toBe(2);
      for (const prompt of prompts) {
        expect(prompt.arms.map(({ arm }) => arm)).toEqual([
          ...['clean', 'clean-again', 'random', 'random', 'fluent'],
          ...['preservation-only', 'unprojected', 'attack', 'undirected'],
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
    for (const { scoredCandidates, undirected } of universal)
      expect(undirected?.scoredCandidates).toBe(scoredCandidates);
    await expectSuffixTexts(result);
  });

  it.each(['gradient', 'random'] as const)(
    'spends as much on each undirected search as on its attack (%s)',
    async (search) => {
      for (const [seed, more] of [{ merges: 4 }, { starts: 4, patience: 1 }].entries()) {
        const settings = { ...briefSettings, ...short, search, steps: 4, finalists: 3, repeats: 2, ...more };
        const result = await audits.complete(audits.plan([medusa], ['abcdefgh'], { settings, seed }));
        for (const { traces } of result.drafters.flatMap(({ prompts }) => prompts)) {
          const effortsOf = (name: ArmName): number[][] =>
            traces
              .filter(({ arm }) => arm === name)
              .map(({ repeat, scoredCandidates, decodedSuffixes }) => [
                ...[repeat, scoredCandidates, decodedSuffixes],
              ]);
          expect(effortsOf('undirected')).toEqual(effortsOf('attack'));
          expect(effortsOf('attack')).toHaveLength(2);
        }
      }
    },
  );

  it('records where the time of each row went, and none of it in the result', async () => {
    const folder = audits.freshFolder();
    const settings = { ...briefSettings, ...short, controlSearches: true };
    const outcome = await audits.start(audits.plan([draftModel], texts.slice(0, 1), { settings }), folder);
    if (outcome.status !== 'complete') throw new Error('The audit was interrupted.');
    const { timings, result } = outcome;
    const phasesOf = (name: string): PhaseTimes => timings.arms.find(({ arm }) => arm === name)!.phases;
    const { preparationMs, ...attack } = phasesOf('attack');
    for (const time of Object.values(attack)) expect(time).toBeGreaterThan(0);
    const { gradientMs, scoringMs, exactLengthsMs, decodingMs, totalMs } = attack;
    const parts = gradientMs + scoringMs + exactLengthsMs + decodingMs + preparationMs;
    expect(parts).toBeLessThanOrEqual(totalMs + 0.05);
    // The first row compiles what all rows decode with.
    expect(phasesOf('clean').preparationMs).toBeGreaterThan(0);
    expect(phasesOf('undirected').gradientMs).toBe(0);
    expect(phasesOf('random')).toMatchObject({ gradientMs: 0, scoringMs: 0 });
    expect(readFileSync(join(folder, 'timings.jsonl'), 'utf8')).toContain('"phases":{"gradientMs":');
    expect(JSON.stringify(result)).not.toContain('Ms"');
    // A resumed run reads them back.
    const again = await audits.resume(folder);
    expect(again.status === 'complete' && again.timings.arms).toEqual(timings.arms);
  });

  /** Every suffix is named as text that gives the audited ids again. */
  async function expectSuffixTexts({ drafters }: AuditResult): Promise<void> {
    const { target } = await audits.load(draftModel);
    for (const { arms: rows, prompt } of drafters[0]!.prompts) {
      const clean = await target.tokenizer.encode(prompt.replace('{suffix}', ''));
      for (const { suffix, suffixIds } of rows) {
        const written = prompt.includes('{suffix}') ? prompt.replace('{suffix}', suffix) : prompt + suffix;
        const ids = await target.tokenizer.encode(written);
        expect(ids).toHaveLength(clean.length + suffixIds.length);
        const at = prompt.includes('{suffix}') ? prompt.indexOf('{suffix}') : clean.length;
        expect(ids.slice(at, at + suffixIds.length)).toEqual(suffixIds);
      }
    }
  }

  it('interrupted in a step ends with the same bytes, and another seed finds other suffixes', async () => {
    const plan = audits.plan([medusa], ['abcdefgh'], {
      settings: { ...briefSettings, ...short, steps: 3, repeats: 2 },
    });
    const whole = audits.freshFolder();
    const result = await audits.complete(plan, whole);
    const folder = audits.freshFolder();
    const abort = new AbortController();
    let steps = 0;
    const events: AuditEvents = {
      onStep() {
        steps += 1;
        if (steps === 5) abort.abort();
      },
    };
    const first = await audits.start(plan, folder, { events, signal: abort.signal });
    expect(first.status).toBe('interrupted');
    expect((await audits.resume(folder)).status).toBe('complete');
    for (const name of ['config.json', 'units.jsonl', 'steps.jsonl'])
      expect(readFileSync(join(folder, name), 'utf8'), name).toBe(readFileSync(join(whole, name), 'utf8'));
    const suffixesOf = ({ drafters }: AuditResult): unknown =>
      drafters[0]!.prompts.flatMap(({ arms }) => arms.map(({ suffixIds }) => suffixIds));
    expect(suffixesOf(await audits.complete({ ...plan, seed: 5 }))).not.toEqual(suffixesOf(result));
  });
});

describe('answers that are not kept when they are measured', () => {
  it('count as no suffix, whatever the search saw', async () => {
    const deep = new TinyAudits(); // its answers change more easily than those of one layer
    const drafters = [deep.writeDrafter('draft model')];
    const request = await createRequest(deep.plan(drafters, texts, { settings: { keep: 'distribution' } }));
    const outcome = await startAudit(deep.freshFolder(), request, { cacheFolder: deep.cacheFolder });
    if (outcome.status !== 'complete') throw new Error('The audit was interrupted.');
    const { folder } = outcome;
    // The search ran under a rule that accepts any answer; counted by a strict one, changed answers must go.
    const strict = { ...request, settings: { ...request.settings, keep: 'identical' as const } };
    const [before] = outcome.result.drafters;
    const [after] = rebuildResult(strict, folder).drafters;
    const changed = before!.prompts.flatMap(({ arms }) =>
      arms.filter(
        ({ arm, preservation }) =>
          ['attack', 'undirected'].includes(arm) && preservation.kept !== 'identical',
      ),
    );
    expect(changed.length).toBeGreaterThan(0);
    expect(before!.summary.armsNotKept).toBeUndefined();
    expect(after!.summary.armsNotKept).toBe(changed.length);
    for (const { arms } of after!.prompts) {
      const clean = arms.find(({ arm }) => arm === 'clean')!;
      for (const { notKept, sameAnswer, answer } of arms)
        if (notKept !== undefined) expect([sameAnswer, answer]).toEqual([clean.sameAnswer, clean.answer]);
    }
    expect(rebuildResult(request, folder)).toEqual(outcome.result);
    await deep.dispose();
  });
});

describe('prompts that cannot be audited', () => {
  const reasons = async (plan: AuditPlan): Promise<(string | null)[]> =>
    (await audits.complete(plan)).drafters[0]!.prompts.map(({ skipped }) => skipped);

  it('without room for the suffix, and with the suffix before everything', async () => {
    const plan = audits.plan([medusa], ['abc'.repeat(15), '{suffix}abc', 'abcdefgh'], {
      settings: briefSettings,
    });
    expect(await reasons(plan)).toEqual([
      'There is no room for the suffix: 70 positions are needed, the context has 64.',
      'Nothing stands before the place of the suffix.',
      null,
    ]);
  });

  it('without room in the context of the drafter, where it would stop drafting', async () => {
    const narrow = writeDecoder(audits.freshFolder(), { ...audits.sizes, contextLength: 32 }, 7);
    const plan = audits.plan([narrow], ['abcdefgh', 'abc'], { settings: briefSettings });
    expect(await reasons(plan)).toEqual([
      expect.stringMatching(
        /^The prompt with its suffix and answer needs 33 positions; the drafter \S+ has 32\.$/,
      ),
      null,
    ]);
  });

  it('with every candidate vetoed, which counts as no drop', async () => {
    const plan = audits.plan([medusa], ['abcdefgh'], { settings: { ...briefSettings, epsilon: 1e-9 } });
    const result = await audits.complete(plan);
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
    const { target } = await audits.load(medusa);
    const { tokenIds: answer } = await generateText(target, 'abcdefgh', { maxNewTokens: 8 });
    const stop = answer[3]!;
    const expected = answer.indexOf(stop);
    const folder = audits.freshFolder();
    const config = { ...llamaConfig(audits.sizes), eos_token_id: stop };
    writeCheckpoint(folder, 'model.safetensors', decoderTensors(audits.sizes), config);
    copyFileSync(join(audits.targetFolder, 'tokenizer.json'), join(folder, 'tokenizer.json'));
    const plan = audits.plan([medusa], ['abcdefgh'], { settings: briefSettings, target: folder });
    const [reason] = await reasons(plan);
    expect(reason).toMatch(/^The clean answer has \d tokens; an audit needs 8\.$/);
    expect(Number(/\d/.exec(reason!)![0])).toBeLessThanOrEqual(expected + 1);
  });

  it('with a drafter that accepts nothing already', async () => {
    // Its output prefers what the target never says: the target's own projection, turned around.
    const tensors = decoderTensors(audits.sizes);
    const output = tensors['lm_head.weight']!;
    const turned = { ...output, values: Float32Array.from(output.values as Float32Array, (value) => -value) };
    const folder = writeCheckpoint(
      audits.freshFolder(),
      'model.safetensors',
      { ...tensors, 'lm_head.weight': turned },
      llamaConfig(audits.sizes),
    );
    const result = await audits.complete(
      audits.plan([folder, medusa], ['abcdefgh'], { settings: briefSettings }),
    );
    expect(result.drafters[0]!.prompts[0]!.skipped).toBe(
      'The drafter accepts almost nothing already (mean accepted length 1.00).',
    );
    expect(result.drafters[1]!.summary.promptsAudited).toBe(1);
    expect(judge(result).exitCode).toBe(3);
  });

  it('with a tokenizer that round-trips nothing', async () => {
    // Every token is two letters that a text never keeps together.
    const pieces = Object.fromEntries(
      Array.from({ length: shallow.vocabularySize - 1 }, (_, id) => [
        id + 1,
        `a${String.fromCharCode(97 + id)}z`,
      ]),
    );
    const broken = new TinyAudits(shallow, pieces);
    try {
      const drafter = broken.writeDrafter('draft model');
      const result = await broken.complete(broken.plan([drafter], ['aaaaaaaa']));
      expect(result.drafters[0]!.prompts[0]!.skipped).toBe(
        'None of 400 random suffixes of 5 tokens survives decoding and encoding.',
      );
    } finally {
      await broken.dispose();
    }
  });
});

describe('given suffixes', () => {
  const measure = (suffixes: AuditPlan['suffixes']): Promise<AuditResult> =>
    audits.complete(audits.plan([medusa], texts, { suffixes, settings: short }));

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
    const settings = { ...briefSettings, ...short };
    const found = await audits.complete(audits.plan([medusa], texts, { settings }));
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
    const settings = {
      ...{ ...briefSettings, ...short },
      temperature: 1,
      keep: 'distribution',
      objective: 'total-variation',
    } as const;
    const result = await audits.complete(audits.plan([medusa], ['abcdefgh'], { settings }));
    const rows = result.drafters[0]!.prompts.flatMap(({ arms: each }) => each);
    const held = (name: string) => rows.filter(({ arm }) => arm === name).map(({ sameAnswer }) => sameAnswer);
    expect(held('attack')).toHaveLength(1);
    expect(held('clean')).not.toEqual(held('clean-again'));
    for (const { origins, emitted } of held('attack')) expect(emitted).toBe(origins.length);
  });

  it('needs a chain', async () => {
    const settings = { temperature: 1, keep: 'distribution' } as const;
    const plan = audits.plan([medusa], texts, { settings, draft: 'dynamic:8,2,2' });
    await expect(createRequest(plan)).rejects.toThrow('An audit at temperature 1 needs a chain');
  });
});

describe('requests', () => {
  it('write every default out', async () => {
    const { draft, ...plan } = audits.plan([draftModel, medusa], texts);
    const request = await createRequest({ ...plan, drafters: [draftModel, medusa] });
    expect(draft).toBe('chain:3');
    expect(request).toMatchObject({ preset: 'standard', seed: 0, threads: 1, node: process.version });
    expect(request.device).toEqual({ kind: 'cpu', dtype: 'float32' });
    expect(request.drafters.map(({ system, policy }) => [system, policy])).toEqual([
      ['speculative-sampling', 'chain:4'],
      ['medusa', 'chain:4'],
    ]);
  });

  it('draft as deep as a drafter has heads', async () => {
    const request = await createRequest({ ...audits.plan([medusa], texts), draft: undefined });
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
    [{ device: 'cpu', dtype: 'float16' as const }, '--dtype is float16; the CPU has float32, int8 and int4'],
  ])('%o is refused', async (changes, message) => {
    await expect(createRequest({ ...audits.plan([medusa], texts), ...changes })).rejects.toThrow(message);
  });

  it('that cannot be carried out leave no folder behind', async () => {
    const other = audits.writeDrafter('Hydra, one layer');
    const folder = audits.freshFolder();
    const plan = audits.plan([other], texts, { draft: 'chain:9' });
    await expect(audits.start(plan, folder)).rejects.toThrow('The draft policy asks for 9 levels');
    expect(existsSync(folder)).toBe(false);
  });

  it('are not resumed by another version', async () => {
    const folder = await audits.begin(audits.plan([medusa], ['abcdefgh']));
    const path = join(folder, 'config.json');
    const config = JSON.parse(readFileSync(path, 'utf8')) as object;
    writeFileSync(path, JSON.stringify({ ...config, version: '0.0.1' }));
    await expect(audits.resume(folder)).rejects.toThrow(
      /started with Mistletoe 0\.0\.1; this is|config\.json/,
    );
  });

  it('are resumed on the device that they record, and on no other', async () => {
    const folder = await audits.begin(audits.plan([medusa], ['abcdefgh'], { device: 'cpu' }));
    const path = join(folder, 'config.json');
    const config = JSON.parse(readFileSync(path, 'utf8')) as object;
    expect(config).toMatchObject({ device: { kind: 'cpu', dtype: 'float32' } });
    const device = { kind: 'cuda', dtype: 'bfloat16', ordinal: 0, name: 'Abacus GPU' };
    writeFileSync(path, JSON.stringify({ ...config, device }));
    const files = readdirSync(folder);
    await expect(audits.resume(folder)).rejects.toThrow(
      /^The run computes on Abacus GPU in bfloat16; (no GPU can be used here|this machine has)/,
    );
    const runtime = createOnnxRuntime({ threads: 1 });
    await expect(audits.resume(folder, { runtime })).rejects.toThrow(
      'The run computes on Abacus GPU (cuda:0) in bfloat16; the given runtime is onnx.',
    );
    await runtime.dispose();
    expect(readdirSync(folder)).toEqual(files);
  });

  it('are not resumed with other weights', async () => {
    const drafter = audits.writeDrafter('draft model');
    const folder = await audits.begin(audits.plan([drafter], ['abcdefgh']));
    writeCheckpoint(drafter, 'model.safetensors', decoderTensors(tiny, 9), llamaConfig(tiny));
    await expect(audits.resume(folder)).rejects.toThrow('was started with another model in');
  });
});
