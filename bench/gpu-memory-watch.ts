/** Memory of device and host in the course of many steps. */
import { createObjective } from '../src/audit/search/objectives.js';
import { preparePrompt } from '../src/audit/arms/audit-prompt.js';
import { readPromptState } from '../src/audit/search/prompt-state.js';
import { Scorer } from '../src/audit/search/scoring.js';
import { compileSearch } from '../src/audit/search/search-programs.js';
import { createRandom } from '../src/core/random.js';
import { bundledTarget } from '../src/decode/bundled-models.js';
import { findDrafter } from '../src/decode/find-drafter.js';
import { always } from '../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../src/decode/speculative.js';
import { openTarget, requestFor } from '../src/decode/target.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { inlinePrompt } from '../src/text/prompts/prompt-set.js';
import type { BenchDevice } from './gpu-models.js';
import { readStatus } from './packed-passes.js';

export interface Watched {
  readonly name: string;
  readonly isFlat: boolean;
  readonly about: string;
}

export interface WatchOptions {
  readonly steps: number;
  readonly auditSteps: number;
  readonly prompts: readonly string[];
}

interface Taken {
  readonly device: number;
  readonly host: number;
}

/** What collections come and go with, behind the warm-up. */
const slack: Taken = { device: 2 ** 26, host: 2 ** 27 };
const warmUpShare = 0.5;
const suffixLength = 20;

export async function watchMemory(
  { runtime, device }: BenchDevice,
  { steps, auditSteps, prompts }: WatchOptions,
): Promise<Watched[]> {
  const target = await openTarget(bundledTarget, { runtime });
  const drafter = await loadDrafter(findDrafter('eagle3'), {
    ...{ target: target.model, tokenizer: target.tokenizer },
  });
  const measure = (): Taken => ({
    device: device === undefined ? 0 : device.totalBytes - device.freeBytes(),
    host: readStatus('self', 'VmRSS'),
  });
  /** The warm-up is for programs, layouts, as many recordings as are kept, and the collector's own measure. */
  const watch = async (name: string, total: number, run: () => Promise<number>): Promise<Watched> => {
    const marks: string[] = [];
    const warmUp = total * warmUpShare;
    let [done, next] = [0, total / 10];
    let before: Taken | undefined;
    const start = performance.now();
    while (done < total) {
      done += await run();
      if (done < next) continue;
      next += total / 10;
      const now = measure();
      if (done >= warmUp) before ??= now;
      marks.push(`${done}: ${megabytes(now.device)} / ${megabytes(now.host)}`);
    }
    const after = measure();
    const perStep = (performance.now() - start) / done;
    return {
      name: `${name}, ${perStep.toFixed(2)} ms a step`,
      isFlat: after.device - before!.device <= slack.device && after.host - before!.host <= slack.host,
      about: `behind a warm-up of ${warmUp}; device / host after ${marks.join(', ')}`,
    };
  };

  let turn = 0;
  const decoding = await watch(`${steps} steps of decoding`, steps, async () => {
    const prompt = prompts[turn++ % prompts.length]!;
    const maxNewTokens = Math.min(128, steps);
    const request = { ...(await requestFor(target, prompt, { maxNewTokens })), stopIds: [] };
    const policy = always({ kind: 'chain', length: 3 });
    return (await decodeSpeculative(target.model, drafter, { ...request, policy })).steps.length;
  });

  const models = { target: target.model, drafter };
  const prompt = await preparePrompt(target, inlinePrompt(prompts[0]!), {
    ...{ window: 20, shortestAnswer: 1, suffixLength, maxNewTokens: 32, temperature: 0, chat: true, seed: 0 },
  });
  const programs = compileSearch(models, createObjective('total-variation', 3), {
    ...{ suffixLength, divergence: 'clean-to-suffixed', temperature: 0, draftLevels: 3 },
  });
  const state = await readPromptState(models, prompt.beforeIds);
  const scorer = new Scorer(target, models, programs, prompt, state);
  const random = createRandom(0, 'bench');
  const { vocabularySize } = target.model.configuration;
  const auditing = await watch(`${auditSteps} steps of an audit`, auditSteps, async () => {
    const base = Array.from({ length: suffixLength }, () => random.nextInteger(vocabularySize));
    await scorer.differentiate(base);
    const candidates = Array.from({ length: auditSteps < 100 ? 16 : 256 }, () => {
      const first = random.nextInteger(suffixLength);
      return { suffixIds: base.with(first, random.nextInteger(vocabularySize)), first };
    });
    await scorer.score(base, candidates);
    return 1;
  });
  await programs.dispose();
  return [decoding, auditing];
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(0)} MB`;
}
