/**
 * What a step of speculative decoding costs on a GPU with models of the size that people serve: a target of random weights
 * in a 7B and a 13B shape with an EAGLE-3 head of the same width. With random weights nothing is accepted, so that each
 * step gives one token at temperature 0; what is measured is what drafting, verifying and the rest of a step cost. Trees in
 * one program, and tokens drawn and judged where the scores lie, are held against trees level by level and the host's rules.
 * Run: npm run bench:gpu-speculative [-- SHAPES]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SamplingOptions } from '../src/core/sampling.js';
import type { GenerationRequest } from '../src/decode/plain.js';
import { decodePlain } from '../src/decode/plain.js';
import { always } from '../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../src/decode/speculative.js';
import type { Drafter } from '../src/draft/drafter.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import type { ResolvedPolicy } from '../src/draft/tree/grow-tree.js';
import { resolvePolicy } from '../src/draft/tree/grow-tree.js';
import { parseDraftPolicy } from '../src/draft/tree/policy.js';
import { writeRandomEagle3 } from './gpu-checkpoints.js';
import type { ShapeName } from './gpu-models.js';
import { chooseShapes, openBenchDevice, openRandomTarget, shapes } from './gpu-models.js';
import { median, printRow, printTable } from './stopwatch.js';

interface Setting {
  readonly policy: string;
  readonly sampling: SamplingOptions;
  /** Trees level by level, or tokens drawn and judged by the host: for comparison. */
  readonly isOld?: boolean;
}

const greedy: SamplingOptions = { temperature: 0 };
const samplings: readonly SamplingOptions[] = [
  { temperature: 1 },
  { temperature: 1, topP: 0.9 },
  { temperature: 1, topK: 40, topP: 0.9 },
];
const settings: readonly Setting[] = [
  ...['chain:1', 'chain:3', 'chain:5', 'chain:7', 'dynamic:60,5,10'].map((policy) => ({
    ...{ policy, sampling: greedy },
  })),
  { policy: 'dynamic:60,5,10', sampling: greedy, isOld: true },
  ...['chain:5', 'dynamic:60,5,10'].flatMap((policy) =>
    [false, true].map((isOld) => ({ policy, sampling: samplings[0]!, isOld })),
  ),
  ...samplings.slice(1).map((sampling) => ({ policy: 'chain:5', sampling })),
];
/** Steps in which programs are compiled, laid out and recorded. */
const warmups = 24;

for (const name of chooseShapes(['7B', '13B'])) {
  try {
    await measure(name, name === 'tiny' ? 4 : 128);
  } catch (cause) {
    console.log(`${name} failed: ${cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)}`);
  }
}

async function measure(name: ShapeName, steps: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'mistletoe-speculative-'));
  const { runtime, name: deviceName } = openBenchDevice(name);
  try {
    console.log(`\n${deviceName}, Node ${process.version}, ${name} shape, random weights`);
    const { model } = openRandomTarget(name, runtime);
    const head = writeRandomEagle3(join(folder, 'head'), shapes[name]);
    const drafter = await loadDrafter(head, { target: model, cacheFolder: join(folder, 'cache') });
    const billions = (count: number): string => `${(count / 1e9).toFixed(2)} B`;
    console.log(`the head has ${billions(drafter.parameterCount)} parameters of its own`);
    const promptIds = Array.from({ length: 64 }, (_, at) => (at * 37) % model.configuration.vocabularySize);
    const request: GenerationRequest = {
      ...{ promptIds, maxNewTokens: warmups + steps + 1, sampling: greedy, seed: 0, stopIds: [] },
    };
    const drawing = { inPrograms: runtime.drawsInPrograms };
    const drawBy = (isOld: boolean): unknown =>
      Object.assign(runtime, { drawsInPrograms: !isOld && drawing.inPrograms });
    const timePlain = async (sampling: SamplingOptions, isOld: boolean): Promise<number> => {
      drawBy(isOld);
      const times: number[] = [];
      let last = 0;
      await decodePlain(model, {
        ...{ ...request, sampling },
        onToken() {
          times.push(performance.now() - last);
          last = performance.now();
        },
      });
      return median(times.slice(warmups));
    };
    const plain = await timePlain(greedy, false);
    console.log(`plain decoding: ${plain.toFixed(2)} ms per token (median)`);
    for (const sampling of samplings) {
      const [programs, host] = [await timePlain(sampling, false), await timePlain(sampling, true)];
      console.log(
        `plain decoding at ${JSON.stringify(sampling)}: ${programs.toFixed(2)} ms drawn by programs, ${host.toFixed(2)} ms by the host`,
      );
    }
    printTable([
      [
        ...['policy', 'sampling', 'as', 'draft', 'verify', 'rest', 'step', 'of it drafting', 'accepted'],
        'pays from (tokens per step)',
      ],
    ]);
    for (const { policy: text, sampling, isOld = false } of settings) {
      const policy = parseDraftPolicy(text);
      if (policy.kind === 'auto') continue;
      drawBy(isOld);
      const own = isOld ? levelByLevel(drafter) : drafter;
      const timed = await timeSteps(resolvePolicy(policy, drafter), { sampling, drafter: own });
      printRow([text, JSON.stringify(sampling), isOld ? 'before' : 'now', ...timed]);
    }

    async function timeSteps(
      policy: ResolvedPolicy,
      { sampling, drafter: own }: { readonly sampling: SamplingOptions; readonly drafter: Drafter },
    ): Promise<string[]> {
      const judged: number[] = [];
      const enough = new AbortController();
      const chooser = {
        ...always(policy),
        learn() {
          if (judged.push(performance.now()) > warmups + steps) enough.abort();
        },
      };
      const generation = await decodeSpeculative(model, own, {
        ...{ ...request, sampling, policy: chooser },
        // Above temperature 0 drafts are accepted, and steps have several tokens.
        ...{ maxNewTokens: 6 * (warmups + steps), signal: enough.signal },
      });
      const measured = generation.steps.slice(warmups).map((step, index) => ({
        ...step,
        // From one verdict to the next.
        stepMs: judged[warmups + index]! - judged[warmups + index - 1]!,
      }));
      const draft = median(measured.map(({ draftMs }) => draftMs));
      const verify = median(measured.map(({ verifyMs }) => verifyMs));
      const rest = median(measured.map(({ stepMs, draftMs, verifyMs }) => stepMs - draftMs - verifyMs));
      const step = median(measured.map(({ stepMs }) => stepMs));
      const accepted = measured.reduce((sum, each) => sum + each.accepted, 0);
      return [
        ...[draft, verify, rest, step].map((ms) => `${ms.toFixed(2)} ms`),
        `${((100 * draft) / step).toFixed(0)} %`,
        String(accepted),
        (step / plain).toFixed(2),
      ];
    }
  } finally {
    await runtime.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The same drafter without trees in one program. */
function levelByLevel(drafter: Drafter): Drafter {
  const startSession: Drafter['startSession'] = (scheduler) => {
    const session = drafter.startSession(scheduler);
    return Object.defineProperty(session, 'draftTree', { value: undefined });
  };
  return Object.create(drafter, { startSession: { value: startSession } }) as Drafter;
}
