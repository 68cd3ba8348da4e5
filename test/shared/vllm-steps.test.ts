/**
 * An outside witness: answers of vLLM 0.32.0 on the bundled models, with the accepted drafts of every step (greedy,
 * float32, four drafts a step).
 */
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sum } from '../../src/core/vector.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import type { SpeculativeGeneration } from '../../src/decode/request.js';
import { openTarget, type Target } from '../../src/decode/target.js';
import { loadDrafter } from '../../src/draft/systems.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { bundledModels, hasShared, readShared } from '../support/shared.js';

interface Recording {
  readonly rows: readonly {
    readonly id: string;
    readonly prompt_ids: readonly number[];
    readonly output_ids: readonly number[];
    /** Of the steps with a draft. As ours, the last one counts what it accepts beyond the end of the answer. */
    readonly accepted: readonly number[];
  }[];
}

const readRecording = (name: string): Recording => readShared(`golden/vllm/${name}.json`) as Recording;

describe.skipIf(!hasShared)('the steps of vLLM', () => {
  const runtime = createOnnxRuntime();
  afterAll(() => runtime.dispose());
  let target: Target;
  beforeAll(async () => {
    target = await openTarget(resolve(bundledModels, 'target'), { runtime });
  });

  async function replay(
    source: string,
    { rows }: Recording,
  ): Promise<readonly Pick<SpeculativeGeneration, 'tokenIds' | 'steps'>[]> {
    const drafter = await loadDrafter(source, { target: target.model });
    const policy = always({ kind: 'chain', length: 4 });
    const replayed = [];
    for (const { prompt_ids: promptIds, output_ids: outputIds } of rows) {
      const request = { promptIds, maxNewTokens: outputIds.length, sampling: { temperature: 0 }, seed: 0 };
      const stopIds = target.stopIds;
      replayed.push(await decodeSpeculative(target.model, drafter, { ...request, stopIds, policy }));
    }
    return replayed;
  }

  it.each(['sps', 'eagle3', 'medusa'])('are those of %s, on 20 of 20 prompts', async (name) => {
    const recording = readRecording(name);
    expect(recording.rows).toHaveLength(20);
    const replayed = await replay(resolve(bundledModels, name), recording);
    const ours = replayed.map(({ tokenIds, steps }, index) => ({
      id: recording.rows[index]!.id,
      output_ids: tokenIds,
      accepted: steps.map(({ accepted }) => accepted),
    }));
    expect(ours).toEqual(
      recording.rows.map(({ id, output_ids, accepted }) => ({ id, output_ids, accepted })),
    );
  });

  it('are no fewer than ours with a lookup', async () => {
    const recording = readRecording('ngram');
    const replayed = await replay('ngram:1,3', recording);
    expect(replayed.map(({ tokenIds }) => tokenIds)).toEqual(recording.rows.map((row) => row.output_ids));
    const tokens = sum(recording.rows.map((row) => row.output_ids.length - 1));
    const ours = sum(replayed.map(({ steps }) => steps.length));
    // Steps with a draft, and a pass for each token that these did not give. Counting what the last step accepted beyond
    // the end of the answer is to the advantage of vLLM.
    const theirs = sum(recording.rows.map(({ accepted, output_ids: ids }) => ids.length - 1 - sum(accepted)));
    console.info(
      `Tokens per target pass with ngram:1,3: ${(tokens / ours).toFixed(3)}; vLLM: ${(tokens / theirs).toFixed(3)}; ratio ${(theirs / ours).toFixed(3)}.`,
    );
    expect(ours).toBeLessThanOrEqual(theirs);
  });
});
