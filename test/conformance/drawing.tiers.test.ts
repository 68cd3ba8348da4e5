/**
 * Tokens that are drawn by programs where their scores lie: the same seeds give the tokens that the host's rules give, for
 * plain decoding, chains and trees of every drafter, alone and beside others.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SamplingOptions } from '../../src/core/sampling.js';
import { Engine } from '../../src/decode/engine.js';
import type { GenerationRequest } from '../../src/decode/request.js';
import { decodePlain } from '../../src/decode/generate.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import { runDirectly } from '../../src/model/lanes/lane-program.js';
import { Sampler } from '../../src/model/lanes/sampler.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { Destination, MixedValues, Program, Runtime } from '../../src/runtime/program.js';
import { byTier, casesOfTier } from '../support/tier.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { drafterVariants, drawnVariant, joinVariants, ngramVariant } from '../support/tiny-drafters.js';
import type { TinyPair } from '../support/tiny-pair.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';
import { levelsIn } from '../support/level-sessions.js';

const onHost = new TinyModels(tiny);
/** Outputs that came to the host. */
const fetched = new Set<string>();
const inPrograms = new TinyModels(
  tiny,
  watchOutputs(Object.assign(createOnnxRuntime({ threads: 1 }), { drawsInPrograms: true })),
);

function watchOutputs(runtime: Runtime): Runtime {
  const compile: Runtime['compile'] = async (...graph) => {
    const program = await runtime.compile(...graph);
    const run = (inputs: MixedValues, wanted: Readonly<Record<string, Destination>>) => {
      for (const [name, place] of Object.entries(wanted)) if (place === 'host') fetched.add(name);
      return program.run(inputs, wanted);
    };
    return Object.create(program, { run: { value: run } }) as Program;
  };
  return Object.create(runtime, { compile: { value: compile } }) as Runtime;
}

afterAll(async () => {
  await onHost.dispose();
  await inPrograms.dispose();
});

const samplings: readonly SamplingOptions[] = [
  { temperature: 1 },
  { temperature: 0.7, topP: 0.9 },
  { temperature: 1.4, topK: 7 },
  { temperature: 0.9, topK: 12, topP: 0.8 },
];
const smallTree = onHost.writeTree([[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0]]);
/** More siblings than top-k and top-p leave. */
const wideTree = onHost.writeTree([
  ...Array.from({ length: 14 }, (_, rank) => [rank]),
  [0, 0],
  [3, 0],
  [3, 1],
]);
const policies = ['chain:1', 'chain:4', smallTree, wideTree, 'dynamic:12,2,3'];

const request = (seed: number, sampling: SamplingOptions): GenerationRequest => ({
  ...{ promptIds: randomTokens(`drawing ${seed}`, 3 + (seed % 7), tiny.vocabularySize), maxNewTokens: 20 },
  ...{ stopIds: [], sampling, seed },
});

describe.runIf(byTier({ quick: true, full: false }))('plain decoding that draws in programs', () => {
  it.each(samplings)('gives the tokens of the host: %j', async (sampling) => {
    const [host, programs] = [await onHost.loadTarget(), await inPrograms.loadTarget()];
    for (let seed = 0; seed < 3; seed++) {
      const expected = await decodePlain(host.target, request(seed, sampling));
      const { tokenIds } = await decodePlain(programs.target, request(seed, sampling));
      expect(tokenIds).toEqual(expected.tokenIds);
      expect(new Set(tokenIds).size).toBeGreaterThan(2);
    }
  });

  it('hands over sums that show scores that are no numbers', async () => {
    const runtime = createOnnxRuntime({ threads: 1 });
    const rows = runtime.allocate(2, 5);
    rows.write(Float32Array.of(1, 2, 3, 4, 5, 1, Number.NaN, 3, 4, 5));
    const seen: Float32Array[] = [];
    const scores = { rows, release: (totals: Float32Array) => seen.push(totals) };
    const sampler = new Sampler(runtime, { targetSize: 5, draftSize: 5 });
    const asked = { trials: [[], []], uniform: 0.9 };
    const { drawn } = await sampler.judge(scores, { temperature: 1, topK: 1 }, asked, runDirectly);
    expect(drawn[0]).toBe(4);
    expect(seen).toEqual([Float32Array.of(15, Number.NaN)]);
    await runtime.dispose();
  });

  it('reads whole rows where likelihoods are asked for', async () => {
    const { target } = await inPrograms.loadTarget();
    const seen: number[] = [];
    const { tokenIds } = await decodePlain(target, {
      ...request(3, { temperature: 1 }),
      ...{ topLikelihoods: 2, onToken: ({ likelihood }) => seen.push(likelihood!.top.length) },
    });
    expect(seen).toEqual(tokenIds.map(() => 2));
  });
});

const variants = [
  'draft model',
  'Medusa',
  'Hydra',
  'EAGLE, torch',
  'EAGLE-3 with d2t',
  'DFlash',
  'DSpark',
  'MTP',
  'ngram',
].map((system) => [...drafterVariants, ngramVariant].find(({ name }) => name.startsWith(system))!);

const joined = [joinVariants(ngramVariant, variants[0]!), joinVariants(ngramVariant, drawnVariant)];

/** Each policy once, and each system. */
const quickPolicies: Readonly<Record<string, readonly string[]>> = {
  ...{ decoder: ['chain:4', wideTree], medusa: [smallTree], hydra: ['chain:4'] },
  ...{ eagle: ['dynamic:12,2,3'], eagle3: ['chain:4', smallTree], ngram: ['chain:1', 'chain:4'] },
  dflash: ['chain:4', smallTree],
  dspark: ['chain:4', smallTree],
  mtp: ['chain:4'],
};

describe.each(
  [...variants, ...joined].filter((variant) => byTier({ quick: true, full: variant !== ngramVariant })),
)('drafts that are drawn and judged in programs: $name', (variant) => {
  let [host, programs]: TinyPair[] = [];
  beforeAll(async () => {
    const folder = variant.write(onHost.freshFolder(), tiny);
    [host, programs] = [await onHost.load(folder), await inPrograms.load(folder)];
  });
  const fitting = casesOfTier(
    policies.filter((text) => text.startsWith('chain:') || variant !== ngramVariant),
    (text) => quickPolicies[variant.kind]!.includes(text),
  );

  it.each(fitting)('%s gives the tokens and steps of the host', async (text) => {
    if (host === undefined || programs === undefined) throw new Error('Nothing was loaded.');
    const session = programs.drafter.startSession();
    expect(levelsIn(session)?.siblings !== undefined).toBe(![ngramVariant, ...joined].includes(variant));
    session.close();
    fetched.clear();
    let [accepted, proposed] = [0, 0];
    for (const [index, sampling] of samplings.entries()) {
      const steps = [];
      for (const { target, drafter } of [host, programs]) {
        const policy = always(resolveText(text, drafter));
        const result = await decodeSpeculative(target, drafter, {
          ...request(4 * index, sampling),
          policy,
        });
        const { tokenIds, acceptance, drafterFailed } = result;
        steps.push({ tokenIds, acceptance, drafterFailed });
      }
      expect(steps[1]).toEqual(steps[0]);
      accepted += steps[0]!.acceptance.accepted;
      proposed += steps[0]!.acceptance.proposed;
    }
    expect([...fetched]).toContain('drawn');
    expect([...fetched]).not.toContain('logits');
    // Both sides of the rule were taken.
    expect(accepted).toBeGreaterThan(0);
    if (variant.name !== 'draft model equal to the target') expect(accepted).toBeLessThan(proposed);
  });
});

describe.runIf(byTier({ quick: true, full: false }))('sequences that are drawn together', () => {
  it('get what each gets alone', async () => {
    const variant = drafterVariants.find(({ name }) => name === 'EAGLE-3 with d2t')!;
    const { target, drafter } = await inPrograms.load(variant.write(inPrograms.freshFolder(), tiny));
    const texts = ['plain', 'chain:3', 'dynamic:12,2,3', 'chain:3', smallTree, 'plain', 'chain:2'];
    const answer = (text: string, index: number, engine?: Engine) => {
      const sampling = index === 3 ? { temperature: 0 } : samplings[index % samplings.length]!;
      const own = { ...request(index, sampling), engine };
      return text === 'plain'
        ? decodePlain(target, own)
        : decodeSpeculative(target, drafter, { ...own, policy: always(resolveText(text, drafter)) });
    };
    const alone = [];
    for (const [index, text] of texts.entries()) alone.push((await answer(text, index)).tokenIds);
    const engine = new Engine({ concurrency: texts.length });
    const together = await Promise.all(
      texts.map((text, index) => engine.run(() => answer(text, index, engine))),
    );
    expect(together.map(({ tokenIds }) => tokenIds)).toEqual(alone);
    // One pass of the target serves all of them: nobody is out of step for drawing.
    expect(engine.targetPasses).toBeLessThan(2 * 20);
  });
});
