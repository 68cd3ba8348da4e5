/**
 * What a step of speculative decoding costs on a GPU with models of the size that people serve: a target of random weights
 * in a 7B and a 13B shape with an EAGLE-3 head of the same width. With random weights nothing is accepted, so that each
 * step gives one token; what is measured is what drafting, verifying and the rest of a step cost.
 * Run: npm run bench:gpu-speculative [-- SHAPES]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { GenerationRequest } from '../src/decode/plain.js';
import { decodePlain } from '../src/decode/plain.js';
import { always } from '../src/decode/policy-chooser.js';
import { decodeSpeculative } from '../src/decode/speculative.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import type { ResolvedPolicy } from '../src/draft/grow-tree.js';
import { resolvePolicy } from '../src/draft/grow-tree.js';
import { formatDraftPolicy, parseDraftPolicy } from '../src/draft/policy.js';
import { writeRandomEagle3 } from './gpu-checkpoints.js';
import type { ShapeName } from './gpu-models.js';
import { chooseShapes, openBenchDevice, openRandomTarget, shapes } from './gpu-models.js';
import { median, printTable } from './stopwatch.js';

const policies = ['chain:1', 'chain:3', 'chain:5', 'chain:7', 'dynamic:60,5,10'];
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
      ...{ promptIds, maxNewTokens: warmups + steps + 1, sampling: { temperature: 0 }, seed: 0, stopIds: [] },
    };
    const times: number[] = [];
    let last = 0;
    await decodePlain(model, {
      ...request,
      onToken() {
        times.push(performance.now() - last);
        last = performance.now();
      },
    });
    const plain = median(times.slice(warmups));
    console.log(`plain decoding: ${plain.toFixed(2)} ms per token (median)`);
    const rows = [
      [
        'draft',
        'draft',
        'verify',
        'rest',
        'step',
        'of it drafting',
        'accepted',
        'pays from (tokens per step)',
      ],
    ];
    for (const text of policies) {
      const policy = parseDraftPolicy(text);
      if (policy.kind === 'auto') continue;
      const resolved = resolvePolicy(policy, drafter);
      rows.push([formatDraftPolicy(policy), ...(await timeSteps(resolved, plain))]);
    }
    printTable(rows);

    async function timeSteps(policy: ResolvedPolicy, plainMs: number): Promise<string[]> {
      const judged: number[] = [];
      const chooser = {
        ...always(policy),
        learn() {
          judged.push(performance.now());
        },
      };
      const generation = await decodeSpeculative(model, drafter, { ...request, policy: chooser });
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
        (step / plainMs).toFixed(2),
      ];
    }
  } finally {
    await runtime.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
}
