/** A tiny target with one of its drafters, loaded from a temporary folder with a weight cache of its own. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeTemporaryFolder } from './checkpoint/temporary-folder.js';
import { createRandom } from '../../src/core/random.js';
import type { Drafter } from '../../src/draft/drafter.js';
import type { ResolvedPolicy } from '../../src/draft/tree/policy.js';
import { resolvePolicy } from '../../src/draft/tree/policy.js';
import { loadDrafter } from '../../src/draft/systems.js';
import { parseDraftPolicy } from '../../src/draft/tree/policy.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import { loadModel } from '../../src/model/causal-model.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { Runtime } from '../../src/runtime/program.js';
import type { Tokenizer } from '../../src/text/tokenizer/tokenizer.js';
import { loadTokenizer } from '../../src/text/tokenizer/tokenizer.js';
import type { TinySizes } from './tiny-checkpoints.js';
import { writeDecoder, writeLetterTokenizer } from './tiny-checkpoints.js';
import { ngramVariant, oneOfEachSystem } from './tiny-drafters.js';

export interface TinyPair {
  readonly target: CausalModel;
  readonly tokenizer: Tokenizer;
  readonly drafter: Drafter;
}

export class TinyModels {
  private readonly folder = makeTemporaryFolder();
  readonly targetFolder: string;
  private count = 0;

  constructor(
    readonly sizes: TinySizes,
    private readonly runtime: Runtime = createOnnxRuntime({ threads: 1 }),
  ) {
    this.targetFolder = writeDecoder(join(this.folder.path, 'target'), sizes);
    writeLetterTokenizer(this.targetFolder, sizes);
  }

  /** A folder that nothing uses yet. */
  freshFolder(): string {
    return join(this.folder.path, String((this.count += 1)));
  }

  writeTree(paths: readonly (readonly number[])[]): string {
    const file = join(this.folder.path, `tree-${(this.count += 1)}.json`);
    writeFileSync(file, JSON.stringify(paths));
    return `tree:${file}`;
  }

  async load(drafterFolder: string): Promise<TinyPair> {
    const { target, tokenizer } = await this.loadTarget();
    return { target, tokenizer, drafter: await this.loadDrafter(drafterFolder, target, tokenizer) };
  }

  async loadOneOfEachSystem(target: CausalModel): Promise<Drafter[]> {
    const drafters: Drafter[] = [];
    for (const variant of [...oneOfEachSystem, ngramVariant])
      drafters.push(await this.loadDrafter(variant.write(this.freshFolder(), this.sizes), target));
    return drafters;
  }

  async loadTarget(): Promise<Pick<TinyPair, 'target' | 'tokenizer'>> {
    const target = await this.loadModel(this.targetFolder);
    return { target, tokenizer: await loadTokenizer(this.targetFolder) };
  }

  /** Another model than the target. */
  loadModel(folder: string): Promise<CausalModel> {
    const { runtime, cacheFolder } = this;
    return loadModel(folder, { runtime, cacheFolder });
  }

  loadDrafter(source: string, target: CausalModel, tokenizer?: Tokenizer): Promise<Drafter> {
    return loadDrafter(source, { target, tokenizer, cacheFolder: this.cacheFolder });
  }

  private get cacheFolder(): string {
    return join(this.folder.path, 'cache');
  }

  async dispose(): Promise<void> {
    await this.runtime.dispose();
    this.folder.remove();
  }
}

export function resolveText(text: string, drafter: Drafter): ResolvedPolicy {
  const policy = parseDraftPolicy(text);
  if (policy.kind === 'auto') throw new Error('A fixed policy was expected.');
  return resolvePolicy(policy, drafter);
}

export function randomTokens(seed: string, count: number, vocabularySize: number): number[] {
  const random = createRandom(seed);
  return Array.from({ length: count }, () => random.nextInteger(vocabularySize));
}
