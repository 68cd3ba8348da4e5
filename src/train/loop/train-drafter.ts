import { basename, join } from 'node:path';
import type { CacheOptions } from '../../checkpoint/cache/weight-cache.js';
import { removeTemporaries } from '../../core/durable-files.js';
import { MistletoeError } from '../../core/errors.js';
import type { Target } from '../../decode/target.js';
import type { ReadingOptions } from '../../draft/draft-system.js';
import { loadDrafter, recogniseCheckpoint, systemTitles } from '../../draft/systems.js';
import { adamDefaults, countValues } from './adamw.js';
import type { BatchPlan, TextBatch } from '../data/batches.js';
import { readParameters } from './parameters.js';
import type { TrainSettings } from '../settings.js';
import { StateStore } from './state-store.js';
import { Trainer } from './trainer.js';
import type { LogLine, TrainingProgress } from './training-state.js';
import { freshProgress, loadState, saveState, TrainingLog } from './training-state.js';
import { trainSteps } from './training-loop.js';
import { openCheckpoint } from '../../checkpoint/open-checkpoint.js';
import { readFloat32 } from '../../checkpoint/read-tensor.js';
import { type Checkpoint, formatShape, quote } from '../../checkpoint/stored-tensor.js';
import { floatSource, storedSource } from '../../checkpoint/tensor-source.js';
import { type WeightRecipe, cutPart, resolveRecipes } from '../../checkpoint/weight-recipe.js';
import { restoreFolder } from '../../checkpoint/written-folder.js';
import { misfit } from '../../draft/reading/checks.js';
import { spellTaps } from '../../draft/eagle/taps.js';
import { embeddingName, outputName } from '../../model/weights.js';
import { writeCheckpoint } from '../../draft/fresh/fresh-tensors.js';

export interface DrafterTraining {
  readonly target: Target;
  readonly start: string;
  readonly plan: BatchPlan;
  readonly validation: readonly TextBatch[];
  readonly settings: TrainSettings;
  readonly folder: string;
  readonly cache: CacheOptions & ReadingOptions;
  readonly signal?: AbortSignal | undefined;
  readonly onStart?:
    | ((start: { readonly parameterCount: number; readonly update: number }) => void)
    | undefined;
  readonly onLine?: ((line: LogLine) => void) | undefined;
}

export type TrainedDrafter = Awaited<ReturnType<typeof trainDrafter>>;

export async function trainDrafter(training: DrafterTraining) {
  const { target, start, plan, validation, settings, folder, cache, signal } = training;
  const drafter = await loadDrafter(start, { target: target.model, tokenizer: target.tokenizer, ...cache });
  const pair = { target: target.model, drafter };
  const values = await readParameters(drafter);
  const { weightDecay, clip, seed, keepStates } = settings;
  const { onNotice } = cache;
  const store =
    keepStates === 0
      ? undefined
      : StateStore.open(join(folder, 'states.bin'), { limitBytes: keepStates, onNotice });
  const trainer = await Trainer.create(pair, values, {
    objective: settings,
    adam: { ...adamDefaults, weightDecay, clip },
    seed,
    store,
    freezeVocabulary: settings.freeze === 'vocabulary',
  });
  const keep = async (name: string): Promise<void> => {
    const values = await trainer.readWeights();
    await saveDrafter({ from: start, to: join(folder, name), values, taps: cache.taps });
  };
  try {
    const stateFile = join(folder, 'state.safetensors');
    removeTemporaries(folder);
    const saved = await loadState(stateFile);
    if (saved !== undefined) {
      refuseFurther(stateFile, saved.progress, settings);
      trainer.buffers.restore(saved.values);
    }
    let progress = saved?.progress ?? freshProgress;
    const log = TrainingLog.open(join(folder, 'log.jsonl'), saved?.progress.update);
    const { parameterCount } = drafter;
    training.onStart?.({ parameterCount, update: progress.update });
    const ended = await trainSteps(
      {
        pair,
        trainer,
        settings,
        plan,
        validation,
        signal,
        onLine(line) {
          log.add(line);
          training.onLine?.(line);
        },
        keepBest: () => keep('best'),
        async save(now) {
          log.sync();
          await saveState(stateFile, { progress: now, values: await trainer.buffers.read() });
          progress = now;
        },
        async keepSaved() {
          const { values: whole } = (await loadState(stateFile))!;
          trainer.buffers.write(whole);
          await keep('last');
          return `the drafter after update ${progress.update} is in ${join(folder, 'last')}`;
        },
      },
      progress,
    );
    await keep('last');
    if (validation.length === 0) await keep('best');
    return { ended, progress, parameterCount, log: log.lines };
  } finally {
    await trainer.dispose();
    store?.close();
  }
}

/** Such a run could never end. */
function refuseFurther(file: string, { update }: TrainingProgress, { steps }: TrainSettings): void {
  if (update <= steps) return;
  throw new MistletoeError(
    'checkpoint',
    `${file} is the state after update ${update}, but the run has ${steps} of them.`,
    {
      hint: 'Put the state of this run back, or remove it to begin the run anew with the answers that it has.',
    },
  );
}

// Saves a trained drafter in its original layout, by running the recipes that read its weights backwards. Tensors that no
// recipe reads, untrained weights, and the describing files are copied from the folder that training started with.
interface SaveRequest extends ReadingOptions {
  readonly from: string;
  /** A drafter at this path is replaced as a whole; anything else is refused. */
  readonly to: string;
  /** By the graph's names; other weights stay as they are. */
  readonly values: ReadonlyMap<string, Float32Array>;
}

export async function saveDrafter(request: SaveRequest): Promise<void> {
  const { from, to, values, taps } = request;
  await restoreFolder(from);
  const checkpoint = await openCheckpoint(from);
  const { system, layout } = recogniseCheckpoint(checkpoint);
  if (system === undefined) throw misfit(from, `has ${layout}`, `Supported: ${systemTitles.join(', ')}.`);
  const { recipes } = system.describe(checkpoint, { taps });
  resolveRecipes(checkpoint, recipes);
  const trained = assignValues(checkpoint, recipes, values);
  const written = [...checkpoint.tensors.values()].filter(({ name }) => !isStale(name, checkpoint, trained));
  // config.json must name the dtype that was written, or loaders would round the weights.
  const config = taps === undefined ? checkpoint.config : spellTaps(checkpoint, taps);
  const named = ['torch_dtype', 'dtype'].filter((key) => config[key] !== undefined);
  const [file, ...others] = checkpoint.files.map((path) => basename(path));
  const isUsual = file === undefined || others.length > 0 || file === 'pytorch_model.bin';
  await writeCheckpoint(to, {
    config: { ...config, ...Object.fromEntries(named.map((key) => [key, 'float32'])) },
    file: isUsual ? 'model.safetensors' : file.replace(/\.(pt|bin)$/, '.safetensors'),
    tensors: written.map((tensor) => {
      const { name, shape } = tensor;
      const part = trained.get(name);
      if (part === undefined) return storedSource(tensor);
      const { recipe, place, values: own } = part;
      return floatSource({ name, shape, dtype: 'F32' }, () =>
        own === undefined ? readFloat32(tensor) : cutPart(own, recipe, place),
      );
    }),
    describedBy: checkpoint.folder,
  });
}

interface TrainedPart {
  readonly recipe: WeightRecipe;
  readonly place: number;
  /** The whole weight; undefined if untrained. */
  readonly values: Float32Array | undefined;
}

function assignValues(
  { folder }: Checkpoint,
  recipes: readonly WeightRecipe[],
  values: ReadonlyMap<string, Float32Array>,
): ReadonlyMap<string, TrainedPart> {
  const names = new Set(recipes.map(({ name }) => name));
  const stranger = [...values.keys()].find((name) => !names.has(name));
  if (stranger !== undefined)
    throw misfit(folder, `has no weight ${quote(stranger)}`, 'The values belong to another drafter.');
  const parts = new Map<string, TrainedPart>();
  for (const recipe of recipes) {
    const given = values.get(recipe.name);
    if (given !== undefined && given.length !== countValues(recipe.shape)) {
      throw misfit(
        folder,
        `has ${quote(recipe.name)} of ${formatShape(recipe.shape)}, but ${given.length} values were given for it`,
        'They belong to another drafter.',
      );
    }
    for (const [place, { tensor }] of recipe.parts.entries()) {
      if (parts.has(tensor))
        throw new MistletoeError('shape', `Two weights of the drafter in ${folder} read ${quote(tensor)}.`);
      parts.set(tensor, { recipe, place, values: given });
    }
  }
  return parts;
}

/** After training, a second copy of a tied embedding would differ; loaders refuse a checkpoint with both. */
function isStale(name: string, { config }: Checkpoint, trained: ReadonlyMap<string, TrainedPart>): boolean {
  return (
    name === outputName &&
    config.tie_word_embeddings === true &&
    !trained.has(outputName) &&
    trained.get(embeddingName)?.values !== undefined
  );
}
