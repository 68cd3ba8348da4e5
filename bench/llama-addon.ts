/**
 * llama.cpp as npm has it built: the native add-on of a package `@node-llama-cpp/*`, loaded from a folder of the user's
 * and driven by its own calls for batches. It is no dependency of Mistletoe. These calls are not documented by the
 * package, so the version is named where it is asked for. What is timed is llama_decode, called on a thread of Node's
 * pool, and the way there and back; sampling is not.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const version = '3.22.1';
const platform = `${process.platform}-${process.arch}`;

export const howToInstall = `Not measured: llama.cpp is not there. Install it into a folder of your choice, DIR, with \`npm install --prefix DIR --ignore-scripts @node-llama-cpp/${platform}@${version}\` (Linux on x64 or arm64), and set MISTLETOE_LLAMA_CPP=DIR.`;

interface Addon {
  readonly AddonModel: new (path: string, options: { readonly addonExports: Addon }) => AddonModel;
  readonly AddonContext: new (model: AddonModel, options: ContextOptions) => AddonContext;
  readonly AddonSampler: new (model: AddonModel) => AddonSampler;
  loadBackends(folder: string): void;
  systemInfo(): string;
  setLoggerLogLevel(level: number): void;
  init(): Promise<void>;
  dispose(): Promise<void>;
}

interface AddonModel {
  init(): Promise<boolean>;
  dispose(): Promise<void>;
}

interface AddonContext {
  init(): Promise<boolean>;
  dispose(): Promise<void>;
  initBatch(size: number): void;
  addToBatch(sequence: number, position: number, tokens: Uint32Array, logits: Uint32Array): Uint32Array;
  decodeBatch(): Promise<void>;
  sampleToken(logits: number, sampler: AddonSampler): Promise<number>;
  removeTokenCellsFromSequence(sequence: number, from: number, to: number): boolean;
}

interface AddonSampler {
  applyConfig(options: { readonly temperature: number }): void;
  dispose(): void;
}

/** What is absent is llama.cpp's default: flash attention where the device has it, keys and values in float16. */
interface ContextOptions {
  readonly threads: number;
  readonly contextSize: number;
  readonly batchSize: number;
  readonly flashAttention?: boolean;
  readonly kvCacheKeyType?: number;
  readonly kvCacheValueType?: number;
}

/** For `kvCacheKeyType` and `kvCacheValueType`. */
export const float32Cache = 0;

export interface LlamaCpp {
  /** Its version and the processor's features it uses. */
  readonly description: string;
  openContext(path: string, options: ContextOptions): Promise<LlamaContext>;
  dispose(): Promise<void>;
}

/** Undefined where it is not installed. */
export async function findLlamaCpp(folder: string | undefined): Promise<LlamaCpp | undefined> {
  const root = join(folder ?? '', 'node_modules/@node-llama-cpp', platform);
  const binaries = join(root, 'bins', platform);
  const file = join(binaries, 'llama-addon.node');
  if (folder === undefined || folder === '' || !existsSync(file)) return undefined;
  const addon = createRequire(import.meta.url)(file) as Addon;
  addon.setLoggerLogLevel(1); // errors
  addon.loadBackends(binaries);
  await addon.init();
  const { buildOptions } = readJson(join(binaries, '_nlcBuildMetadata.json')) as BuildRecord;
  const features = [...addon.systemInfo().matchAll(/(\w+) = 1/g)].map(([, name]) => name).join(' ');
  const npmVersion = (readJson(join(root, 'package.json')) as { version: string }).version;
  return {
    description: `llama.cpp ${buildOptions.llamaCpp.release} (@node-llama-cpp/${platform} ${npmVersion}; ${features})`,
    openContext: (path, options) => openContext(addon, path, options),
    dispose: () => addon.dispose(),
  };
}

interface BuildRecord {
  readonly buildOptions: { readonly llamaCpp: { readonly release: string } };
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(path, 'utf8'));
}

async function openContext(addon: Addon, path: string, options: ContextOptions): Promise<LlamaContext> {
  const model = new addon.AddonModel(path, { addonExports: addon });
  if (!(await model.init())) throw new Error(`llama.cpp could not load ${path}.`);
  const context = new addon.AddonContext(model, options);
  if (!(await context.init())) throw new Error('llama.cpp could not create a context.');
  const sampler = new addon.AddonSampler(model);
  sampler.applyConfig({ temperature: 0 });
  return new LlamaContext(model, context, sampler, options.batchSize);
}

class LlamaContext {
  private length = 0;
  /** Where in the last batch the scores of its last row lie. */
  private lastScores = 0;

  constructor(
    private readonly model: AddonModel,
    private readonly context: AddonContext,
    private readonly sampler: AddonSampler,
    private readonly batchSize: number,
  ) {}

  /** Runs the tokens behind what is cached; scores are computed for every row, or for the last alone. */
  async run(tokens: readonly number[], scores: 'all' | 'last'): Promise<void> {
    for (let start = 0; start < tokens.length; start += this.batchSize) {
      const batch = Uint32Array.from(tokens.slice(start, start + this.batchSize));
      const rows = scores === 'all' ? batch.map((_, row) => row) : Uint32Array.of(batch.length - 1);
      this.context.initBatch(batch.length);
      this.lastScores = this.context.addToBatch(0, this.length, batch, rows).at(-1)!;
      await this.context.decodeBatch();
      this.length += batch.length;
    }
  }

  /** The best token behind the last row. */
  chooseGreedily(): Promise<number> {
    return this.context.sampleToken(this.lastScores, this.sampler);
  }

  truncate(length: number): void {
    if (!this.context.removeTokenCellsFromSequence(0, length, -1))
      throw new Error(`llama.cpp could not cut its cache to ${length} positions.`);
    this.length = Math.min(this.length, length);
  }

  async dispose(): Promise<void> {
    this.sampler.dispose();
    await this.context.dispose();
    await this.model.dispose();
  }
}
