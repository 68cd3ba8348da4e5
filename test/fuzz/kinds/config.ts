/** config.json of targets and of drafters. What is accepted of a target decodes; what is said of a drafter is finite. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MistletoeError } from '../../../src/core/errors.js';
import { createRandom } from '../../../src/core/random.js';
import { decodePlain } from '../../../src/decode/generate.js';
import { inspectCheckpoint } from '../../../src/draft/inspection.js';
import { loadModel } from '../../../src/model/causal-model.js';
import { createOnnxRuntime } from '../../../src/runtime/onnx/onnx-runtime.js';
import { llamaConfig, tiniest, tiny, writeDecoder } from '../../support/tiny-checkpoints.js';
import { drafterVariants } from '../../support/tiny-drafters.js';
import { mutateBytes, pick } from '../byte-mutations.js';
import { mutateJson } from '../json-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';

/** Settings that a config may have and the tiny one has not, so that damage meets them. */
const furtherSettings: readonly Readonly<Record<string, unknown>>[] = [
  {},
  {
    rope_scaling: {
      rope_type: 'llama3',
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 32,
    },
  },
  { rope_scaling: { rope_type: 'yarn', factor: 2, original_max_position_embeddings: 32 } },
  { rope_scaling: { type: 'linear', factor: 2 } },
  { rope_parameters: { rope_theta: 5000, rope_type: 'default' } },
  {
    rope_scaling: {
      rope_type: 'longrope',
      short_factor: [1, 1],
      long_factor: [2, 2],
      original_max_position_embeddings: 32,
    },
  },
  { model_type: 'mistral', architectures: ['MistralForCausalLM'], sliding_window: 8 },
  { eos_token_id: [1, 2], bos_token_id: 0, head_dim: 4, hidden_act: 'silu', attention_bias: false },
];

const drafterNames = [
  'Hydra, one layer',
  'Hydra++',
  'EAGLE-3 with d2t',
  'EAGLE-3 in the speculators format',
  'MTP',
];

export const config: FuzzKind = {
  name: 'config',
  boundedRuns: 250,
  open(folder) {
    const runtime = createOnnxRuntime({ threads: 1 });
    const cacheFolder = join(folder, 'cache');
    const target = writeDecoder(join(folder, 'target'), tiniest);
    const drafters = drafterNames.map((name, index) => {
      const path = join(folder, `drafter-${index}`);
      mkdirSync(path);
      drafterVariants.find((variant) => variant.name === name)!.write(path, tiny);
      return { path, config: JSON.parse(readFileSync(join(path, 'config.json'), 'utf8')) as unknown };
    });
    return async (seed) => {
      const random = createRandom(seed, 'config');
      const isTarget = random.nextInteger(3) > 0;
      const drafter = pick(random, drafters);
      const place = isTarget ? target : drafter.path;
      const valid = isTarget ? { ...llamaConfig(tiniest), ...pick(random, furtherSettings) } : drafter.config;
      const text =
        random.nextInteger(4) === 0
          ? mutateBytes(Buffer.from(JSON.stringify(valid)), random)
          : mutateJson(valid, random);
      writeFileSync(join(place, 'config.json'), text);
      const inspection = await inspectCheckpoint(place);
      const [problem] = inspection.problems;
      if (problem !== undefined)
        throw new MistletoeError('checkpoint', problem.problem, { hint: problem.remedy });
      ensure(!JSON.stringify(inspection).includes('null'), 'a fact that is no finite number');
      if (!isTarget) return;
      const model = await loadModel(place, { runtime, cacheFolder });
      const request = { promptIds: [1], maxNewTokens: 2, sampling: { temperature: 0 }, seed: 0, stopIds: [] };
      const { tokenIds } = await decodePlain(model, request);
      ensure(tokenIds.length === 1 || tokenIds.length === 2, `${tokenIds.length} tokens were decoded`);
    };
  },
};
