/**
 * `auto` against fixed policies: tokens per second of plain decoding, chains and `auto`, for each drafter and prompt set, with
 * one sequence and with eight. All policies answer each prompt (or batch of eight) in turn, starting with a different one each
 * time; the table shows medians over batches. The first round warms up and is not counted; `auto` keeps what it learned in it.
 * The best of several noisy speeds looks better than it is. So the best fixed policy is chosen on half of the batches and
 * compared with `auto` on the other half. A round of eight sequences is one batch, so it is repeated four times as often.
 * Options: [DRAFTER,...]
 */
import { deepStrictEqual } from 'node:assert';
import { AdaptivePolicy } from '../src/decode/policies/adaptive-policy.js';
import { bundledTarget } from '../src/core/package-files.js';
import { findDrafter } from '../src/decode/find-drafter.js';
import { Engine } from '../src/decode/engine.js';
import { type GenerationRequest } from '../src/decode/request.js';
import { decodePlain } from '../src/decode/generate.js';
import { type PolicyChooser, always } from '../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../src/decode/generate.js';
import { encodePrompt, openTarget } from '../src/decode/target.js';
import type { Drafter } from '../src/draft/drafter.js';
import { loadDrafter } from '../src/draft/systems.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { loadPrompts } from '../src/text/prompts/prompt-set.js';
import { promptFolder, promptSets } from './prompt-sets.js';
import { median, printNote, printTable } from './stopwatch.js';

const drafters = (process.argv[2] ?? 'ngram,sps,eagle3').split(',');
const [promptCount, maxNewTokens, rounds, threads] = [8, 64, 2, 2];
const lengths = [1, 2, 3, 4];
const runtime = createOnnxRuntime({ threads });
const target = await openTarget(bundledTarget, { runtime });
const { model } = target;

class Contender {
  /** [batch] tokens per second */
  readonly speeds: number[] = [];
  steps = 0;
  drafted = 0;

  /** Without a policy it decodes plainly. */
  constructor(
    readonly name: string,
    readonly policy?: PolicyChooser,
  ) {}
}

async function encodeSet(set: string): Promise<readonly GenerationRequest[]> {
  const prompts = (await loadPrompts(set, { folder: promptFolder })).slice(0, promptCount);
  return Promise.all(
    prompts.map(async ({ text }) => ({
      promptIds: await encodePrompt(target, text),
      maxNewTokens,
      sampling: { temperature: 0 },
      seed: 0,
      stopIds: [], // so that all of them run to the same length
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
      engine.run(async () => {
        const times: number[] = [];
        const own = { ...request, engine, onToken: (): void => void times.push(performance.now()) };
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

type Half = 0 | 1;

/** The median ratio over batches (or every other one), which a short disturbance of the machine does not change. */
function speedup({ speeds }: Contender, base: Contender, half?: Half): number {
  const ratios = speeds.map((speed, batch) => speed / base.speeds[batch]!);
  return median(ratios.filter((_, batch) => half === undefined || batch % 2 === half));
}

/** `auto` over the best fixed policy: chosen on one half of the batches, compared on the other, and the reverse. */
function compareWithBest(auto: Contender, fixed: readonly Contender[]): number {
  const shareOf = (chosenOn: Half, comparedOn: Half): number => {
    const speeds = fixed.map((each) => speedup(each, fixed[0]!, chosenOn));
    return speedup(auto, fixed[speeds.indexOf(Math.max(...speeds))]!, comparedOn);
  };
  return (shareOf(0, 1) + shareOf(1, 0)) / 2;
}

async function compare(
  drafter: Drafter,
  requests: readonly GenerationRequest[],
  sequences: number,
): Promise<Contender[]> {
  const fitting = lengths.filter((length) => length <= drafter.maximumDepth);
  const contenders = [
    new Contender('plain'),
    ...fitting.map((length) => new Contender(`chain:${length}`, always({ kind: 'chain', length }))),
    new Contender('auto', new AdaptivePolicy(drafter)),
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

const chains = lengths.map((length) => `chain:${length}`);
const columns = ['sequences', 'drafter', 'prompts', 'plain, tokens/s', ...chains, 'auto'];
const rows = [[...columns, 'auto / best fixed', 'auto drafts in']];
const shares: number[] = [];
for (const sequences of [1, 8]) {
  for (const name of drafters) {
    const drafter = await loadDrafter(findDrafter(name), { target: model, tokenizer: target.tokenizer });
    for (const set of promptSets) {
      const contenders = await compare(drafter, await encodeSet(set), sequences);
      const [plain, auto] = [contenders[0]!, contenders.at(-1)!];
      const share = compareWithBest(auto, contenders.slice(0, -1));
      shares.push(share);
      const cells = chains.map((chain) => {
        const found = contenders.find((contender) => contender.name === chain);
        return found === undefined ? '–' : `${speedup(found, plain).toFixed(2)}x`;
      });
      rows.push([
        ...[String(sequences), name, set, median(plain.speeds).toFixed(0), ...cells],
        ...[`${speedup(auto, plain).toFixed(2)}x`, `${(100 * share).toFixed(0)} %`],
        `${((100 * auto.drafted) / auto.steps).toFixed(0)} % of steps`,
      ]);
      process.stderr.write(`${rows.at(-1)!.join('  ')}\n`);
    }
  }
}
printTable(
  rows,
  `${promptCount} prompts of each set, ${maxNewTokens} new tokens, ${rounds} rounds, ${threads} threads; speeds over plain decoding`,
);
printNote(
  `Every answer equals plain decoding's. Lowest share of the best fixed policy: ${(100 * Math.min(...shares)).toFixed(0)} %.`,
);
await runtime.dispose();
