/**
 * `auto` against fixed policies: tokens per second of plain decoding, chains and `auto`, for each drafter and prompt set, with
 * one sequence and with eight. All policies answer each prompt (or batch of eight) in turn, starting with a different one each
 * time; the table shows medians over batches. The first round warms up and is not counted; `auto` keeps what it learned in it.
 * The best of several noisy speeds looks better than it is. So the best fixed policy is chosen on half of the batches and
 * compared with `auto` on the other half. A round of eight sequences is one batch, so it is repeated four times as often.
 * Options: --prompts 8 --tokens 64 --rounds 2 --drafters ngram,sps,eagle3 --sets humaneval,gsm8k,mt-bench --lengths 1,2,3,4
 *   --sequences 1,8 --threads 2
 */
import { deepStrictEqual } from 'node:assert';
import { parseArgs } from 'node:util';
import { AdaptivePolicy } from '../src/decode/policies/adaptive-policy.js';
import { bundledTarget, findDrafter } from '../src/decode/bundled-models.js';
import { Engine } from '../src/decode/engine/engine.js';
import { type GenerationRequest, decodePlain } from '../src/decode/plain.js';
import { type PolicyChooser, always } from '../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../src/decode/speculative.js';
import { encodePrompt, openTarget } from '../src/decode/target.js';
import type { Drafter } from '../src/draft/drafter.js';
import { loadDrafter } from '../src/draft/systems.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { loadPrompts } from '../src/text/prompts/prompt-set.js';
import { printNote, printTable } from './stopwatch.js';

const { values: options } = parseArgs({
  options: {
    prompts: { type: 'string', default: '8' },
    tokens: { type: 'string', default: '64' },
    rounds: { type: 'string', default: '2' },
    drafters: { type: 'string', default: 'ngram,sps,eagle3' },
    sets: { type: 'string', default: 'humaneval,gsm8k,mt-bench' },
    lengths: { type: 'string', default: '1,2,3,4' },
    sequences: { type: 'string', default: '1,8' },
    threads: { type: 'string', default: '2' },
    folder: { type: 'string', default: '../shared/data' },
  },
});
const [threads, rounds, maxNewTokens] = [options.threads, options.rounds, options.tokens].map(Number) as [
  number,
  number,
  number,
];
const lengths = options.lengths.split(',').map(Number);
const runtime = createOnnxRuntime({ threads });
const target = await openTarget(bundledTarget, { runtime });
const { model } = target;

interface Contender {
  readonly name: string;
  /** Undefined for plain decoding. */
  readonly policy: PolicyChooser | undefined;
  /** [batch] tokens per second */
  readonly speeds: number[];
  steps: number;
  drafted: number;
}

const createContender = (name: string, policy?: PolicyChooser): Contender => ({
  name,
  policy,
  speeds: [],
  steps: 0,
  drafted: 0,
});

async function encodeSet(set: string): Promise<readonly GenerationRequest[]> {
  const prompts = (await loadPrompts(set, { folder: options.folder })).slice(0, Number(options.prompts));
  return Promise.all(
    prompts.map(async ({ text }) => ({
      promptIds: await encodePrompt(target, text),
      // Without stop tokens, so that all of them run to the same length.
      ...{ maxNewTokens, sampling: { temperature: 0 }, seed: 0, stopIds: [] },
    })),
  );
}

/** Decodes a batch and counts tokens while all of its sequences decode: prompts read, and none at its end. */
async function decodeBatch(
  batch: readonly GenerationRequest[],
  drafter: Drafter,
  contender: Contender,
  isCounted: boolean,
): Promise<readonly (readonly number[])[]> {
  const { policy } = contender;
  const engine = new Engine({ concurrency: batch.length });
  const answers = await Promise.all(
    batch.map((request) =>
      engine.run(async (scheduler) => {
        const times: number[] = [];
        const own = { ...request, scheduler, onToken: (): void => void times.push(performance.now()) };
        if (policy === undefined) return { times, ...(await decodePlain(model, own)), steps: [] };
        return { times, ...(await decodeSpeculative(model, drafter, { ...own, policy, mustDraft: true })) };
      }),
    ),
  );
  if (isCounted) {
    const from = Math.max(...answers.map(({ times }) => times[0]!));
    const to = Math.min(...answers.map(({ times }) => times.at(-1)!));
    const tokens = answers.flatMap(({ times }) => times).filter((at) => at > from && at <= to).length;
    contender.speeds.push(tokens / ((to - from) / 1000));
    const steps = answers.flatMap((answer) => answer.steps);
    contender.steps += steps.length;
    contender.drafted += steps.filter(({ proposed }) => proposed > 0).length;
  }
  return answers.map(({ tokenIds }) => tokenIds);
}

const median = (values: readonly number[]): number =>
  [...values].sort((left, right) => left - right)[Math.floor(values.length / 2)]!;

type Half = 0 | 1;

/** The median ratio over batches (or every other one), which a short disturbance of the machine does not change. */
const speedup = ({ speeds }: Contender, base: Contender, half?: Half): number =>
  median(
    speeds
      .map((speed, batch) => speed / base.speeds[batch]!)
      .filter((_, batch) => half === undefined || batch % 2 === half),
  );

/** `auto` over the best fixed policy: chosen on one half of the batches, compared on the other, and the reverse. */
function compareWithBest(auto: Contender, fixed: readonly Contender[]): number {
  const [plain] = fixed as [Contender];
  const shares = ([0, 1] as const).map((half) => {
    const best = fixed.reduce((most, each) =>
      speedup(each, plain, half) > speedup(most, plain, half) ? each : most,
    );
    return speedup(auto, best, half === 0 ? 1 : 0);
  });
  return (shares[0]! + shares[1]!) / 2;
}

async function compare(drafter: Drafter, requests: readonly GenerationRequest[], sequences: number) {
  const fitting = lengths.filter((length) => length <= drafter.maximumDepth);
  const contenders = [
    createContender('plain'),
    ...fitting.map((length) => createContender(`chain:${length}`, always({ kind: 'chain', length }))),
    createContender('auto', new AdaptivePolicy(drafter)),
  ];
  let turn = 0;
  const allRounds = sequences === 1 ? rounds : 4 * rounds;
  for (let round = -1; round < allRounds; round++) {
    // A batch that is not full would measure fewer sequences.
    for (let start = 0; start + sequences <= requests.length; start += sequences) {
      const batch = requests.slice(start, start + sequences);
      const answers = new Map<string, readonly (readonly number[])[]>();
      for (let place = 0; place < contenders.length; place++) {
        const contender = contenders[(turn + place) % contenders.length]!;
        answers.set(contender.name, await decodeBatch(batch, drafter, contender, round >= 0));
      }
      turn += 1;
      for (const tokenIds of answers.values()) deepStrictEqual(tokenIds, answers.get('plain'));
    }
  }
  return contenders;
}

const columns = lengths.map((length) => `chain:${length}`);
const rows = [
  [
    'sequences',
    'drafter',
    'prompts',
    'plain, tokens/s',
    ...columns,
    'auto',
    'auto / best fixed',
    'auto drafts in',
  ],
];
const ratios: number[] = [];
for (const sequences of options.sequences.split(',').map(Number)) {
  for (const name of options.drafters.split(',')) {
    const drafter = await loadDrafter(findDrafter(name), { target: model, tokenizer: target.tokenizer });
    for (const set of options.sets.split(',')) {
      const contenders = await compare(drafter, await encodeSet(set), sequences);
      const auto = contenders.at(-1)!;
      const fixed = contenders.slice(0, -1);
      const [plain] = fixed as [Contender];
      const ratio = compareWithBest(auto, fixed);
      ratios.push(ratio);
      const cells = columns.map((column) => {
        const found = fixed.find((contender) => contender.name === column);
        return found === undefined ? '–' : `${speedup(found, plain).toFixed(2)}x`;
      });
      rows.push([
        ...[String(sequences), name, set, median(plain.speeds).toFixed(0), ...cells],
        ...[`${speedup(auto, plain).toFixed(2)}x`, `${(100 * ratio).toFixed(0)} %`],
        `${((100 * auto.drafted) / auto.steps).toFixed(0)} % of steps`,
      ]);
      process.stderr.write(`${rows.at(-1)!.join('  ')}\n`);
    }
  }
}
printTable(
  rows,
  `${options.prompts} prompts of each set, ${maxNewTokens} new tokens, ${rounds} rounds, ${threads} threads; speeds over plain decoding`,
);
printNote(
  `Every answer equals plain decoding's. Lowest share of the best fixed policy: ${(100 * Math.min(...ratios)).toFixed(0)} %.`,
);
await runtime.dispose();
